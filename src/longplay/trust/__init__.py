"""Run directory -> proof: played again, packed, held against this machine."""
