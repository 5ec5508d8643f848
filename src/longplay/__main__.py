"""`python -m longplay` is `longplay`."""

from longplay.cli import main

main()
