"""The pictures of pages in docs/, taken of a short run."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageColor

import viewer_pictures
from longplay.lab.report.draw.colours import game_colour


def test_pictures_have_the_colours_of_the_pages(browser, tmp_path, monkeypatch):
    monkeypatch.setitem(viewer_pictures.OVERRIDES, "base_visit_frames", 300)
    run_dir = viewer_pictures.play(tmp_path)
    taken = viewer_pictures.take_pictures(browser, run_dir, tmp_path / "cache")
    assert set(taken) == {"viewer-run.png", "viewer-episode.png"}
    pixels = {
        name: np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
        for name, content in taken.items()
    }
    for game in ("centipede", "ms_pacman", "qbert"):
        colour = ImageColor.getrgb(game_colour(game))
        count = (pixels["viewer-run.png"] == colour).all(axis=2).sum()
        assert count >= 12 * 12, game  # the square of the legend
    assert {picture.shape[1] for picture in pixels.values()} == {1024}
    assert min(picture.shape[0] for picture in pixels.values()) > 500


def test_picture_of_a_report(browser, finished_run, tmp_path):
    page = viewer_pictures.write_report(tmp_path / "report", finished_run)
    content = viewer_pictures.shoot_report(browser, page)
    width, height = Image.open(io.BytesIO(content)).size
    assert width == 1024
    assert 400 < height < 1600
