"""Draws the pictures of the README and the docs.

    python tools/pictures.py [--only NAME] [--timesteps 3000] [--folder DIR]

    stream.png    README: frames and reward rate of a learning run (`stream_picture.py`)
    hud.png       docs/video.md: a frame of it, with its caption
    visits.png    docs/prediction.md: a prediction run (`prediction_pictures.py`)
    audit.png     docs/prediction.md: the audits of the references

The runs are played here, so nothing else is needed. The prediction pictures are made
of the references in use: the shipped ones, unless LONGPLAY_REFERENCES names others. On
one machine the same code gives the same bytes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import longplay
from figure_files import render_figure
from longplay.contract.files import make_directory, write_file
from longplay.errors import ConfigError, LongplayError
from longplay.reference.library import find_data, list_references, read_all_facts
from longplay.scoring.play import read_play
from prediction_pictures import MOST_VISITS, draw_audits, draw_visits
from stream_picture import Shown, draw_caption, draw_stream, play_stream

ROOT = Path(__file__).parent.parent
PREDICTOR = ROOT / "examples" / "prediction_td_lambda.py"


def play_prediction(folder: Path, timesteps: int) -> Path:
    """A run of the example predictor on the first games that have a reference."""
    overrides = {
        "games": list_references()[:MOST_VISITS],
        "base_visit_frames": timesteps,
    }
    out = folder / "prediction"
    result = longplay.run("prediction-v1", str(PREDICTOR), out=out, overrides=overrides)
    return result.runs[0].run_dir


def picture_makers(work: Path, timesteps: int) -> dict[str, Callable[[], bytes]]:
    """Name of a picture -> what makes it."""

    @cache
    def stream() -> Shown:
        return play_stream(work)

    def visits() -> bytes:
        run = longplay.read_run(play_prediction(work, timesteps))
        return render_figure(draw_visits(read_play(run)))

    return {
        "stream.png": lambda: render_figure(draw_stream(stream())),
        "hud.png": lambda: draw_caption(stream()),
        "visits.png": visits,
        "audit.png": lambda: render_figure(draw_audits(read_all_facts())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append")
    parser.add_argument("--timesteps", type=int, default=3_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    try:
        if not list_references():
            raise ConfigError(f"expected references in {find_data()}, found none")
        make_directory(options.folder, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="longplay-pictures-") as name:
            makers = picture_makers(Path(name), options.timesteps)
            for picture in options.only or makers:
                write_file(options.folder / picture, makers[picture]())
                print(f"wrote {options.folder / picture}")
    except LongplayError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
