"""The command line: parse, call, print.

Exit codes: 0 success, 1 findings or a failed run, 2 invalid usage, 75 preempted and
resumable, 130 Ctrl-C. `--json` prints one JSON document on standard output, longplay's
own errors included; progress goes to standard error.
"""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a table must not fail on ASCII
            stream.reconfigure(errors="replace")
    from longplay.cli.supervision import is_supervised, run_supervised

    if is_supervised(sys.argv[1:]):
        run_supervised(_run_app, as_json="--json" in sys.argv)
    else:
        _run_app()


def _run_app() -> None:
    try:
        from longplay.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
