"""Pictures of pages have few colours, and exact ones in their areas."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longplay.errors import ConfigError
from viewer_pictures import ROOT, find_chromium, reduce_colours


def render(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_frequent_colours_stay_and_rare_ones_move_to_a_neighbour():
    pixels = np.zeros((100, 100, 3), np.uint8)
    pixels[:50] = 200, 10, 10
    pixels[50:52] = 10, 200, 10  # an area as small as that of a legend
    shades = np.arange(300)
    pixels[60:63, :, 0] = (shades // 2 + 1).reshape(3, 100)
    pixels[60:63, :, 1] = (shades % 2).reshape(3, 100)
    content = reduce_colours(render(pixels))
    found = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    np.testing.assert_array_equal(found[:60], pixels[:60])
    np.testing.assert_array_equal(found[63:], pixels[63:])
    assert len(np.unique(found.reshape(-1, 3), axis=0)) == 256
    assert np.abs(found.astype(int) - pixels).max() <= 1 + 300 - 253


def test_few_colours_stay_all():
    pixels = np.arange(256 * 3, dtype=np.uint32).reshape(16, 16, 3).astype(np.uint8)
    content = reduce_colours(render(pixels))
    found = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    np.testing.assert_array_equal(found, pixels)


def test_without_chromium_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("LONGPLAY_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apt install chromium"):
        find_chromium()


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("viewer.md", "viewer-run.png"),
        ("viewer.md", "viewer-episode.png"),
        ("analysis.md", "report.png"),
    ],
)
def test_pictures_in_the_docs_are_small_and_shown(page: str, name: str):
    assert f"](pictures/{name})" in (ROOT / "docs" / page).read_text()
    assert Path(ROOT / "docs" / "pictures" / name).stat().st_size < 100_000
