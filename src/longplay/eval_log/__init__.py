"""Where results come from, and the records that leave the house."""
