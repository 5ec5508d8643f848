"""The command line: parse, call, print.

Exit codes: 0 fine, 1 findings or a failed run, 2 a request that cannot be meant, 130
Ctrl-C. `--json` prints one JSON document on standard output, longplay's own errors
included; progress and what is meant for people goes to standard error.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a table must not fail on ASCII
            stream.reconfigure(errors="replace")
    try:
        from longplay.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
