"""`python -m references`: the commands that make references."""

from references.commands import reference_app

if __name__ == "__main__":
    reference_app()
