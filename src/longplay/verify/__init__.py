"""Run directory -> proof: going on exactly, playing again, packing small."""
