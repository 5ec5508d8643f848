"""`python -m longplay` is `longplay`."""

from longplay.cli import main

if __name__ == "__main__":
    main()
