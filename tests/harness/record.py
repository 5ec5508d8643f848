"""Records again what the commands answer, after a change that is meant to move it.

    python tests/harness/record.py [--only NAME]

NAME is a part of a case's name. All commands run, because later ones show what earlier
ones played; only those cases are written. It prints every answer that changed, with the
first difference. Commit the change of `recorded/` alone, and say why it was meant.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from recorded_outputs import (
    PACK_SCORES,
    RECORDED,
    find_difference,
    list_recorded,
    play_cases,
    read_pack_scores,
    read_recorded,
    remove_recorded,
    write_recorded,
)


def record(only: str) -> None:
    RECORDED.mkdir(exist_ok=True)
    texts: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case, answer in play_cases(Path(folder).resolve()):
            if answer.problem:
                sys.exit(f"{case.name}: {answer.problem}")
            if only in case.name:
                texts |= answer.texts
    if only in PACK_SCORES:
        texts[PACK_SCORES] = read_pack_scores()
    for name, text in texts.items():
        _replace(name, text)
    if not only:
        for name in set(list_recorded()) - set(texts):
            remove_recorded(name)
            print(f"{name}: removed, no command answers it")


def _replace(name: str, text: str) -> None:
    before = read_recorded(name)
    found = "new" if before is None else find_difference(name, before, text)
    if found is not None:
        write_recorded(name, text)
        print(f"{name}: {found}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="NAME", help="part of a name")
    record(parser.parse_args().only)
