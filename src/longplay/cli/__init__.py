"""The command line: parse, call, print.

Exit codes: 0 fine, 1 findings or a failed run, 2 a request that cannot be meant, 130
Ctrl-C. `--json` prints one JSON document on standard output, longplay's own errors
included; progress and what is meant for people goes to standard error.
"""

from __future__ import annotations


def main() -> None:
    """Runs the command line."""
    from longplay.cli.app import app

    app()
