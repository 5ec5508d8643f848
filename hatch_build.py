"""README.md -> the description on the package index, where relative links are broken.

Links lead to the files of the version's tag, pictures are those of the tag. hatchling
calls this when it builds a wheel, an sdist or an editable installation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_REPOSITORY = "longplay/longplay"
_LINK = re.compile(
    r"(?P<is_picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<path>[^)]+)\)"
)


class DescriptionHook(MetadataHookInterface):
    """Sets the field `readme` of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the description."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        description = make_links_absolute(text, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": description}


def make_links_absolute(markdown: str, tag: str) -> str:
    """Replaces links to files of the repository by their addresses at a tag."""

    def replace(link: re.Match[str]) -> str:
        path, picture = link["path"], link["is_picture"]
        address = f"https://github.com/{_REPOSITORY}/blob/{tag}/{path}"
        if picture:
            address = f"https://raw.githubusercontent.com/{_REPOSITORY}/{tag}/{path}"
            if path.endswith(".svg"):
                address += "?sanitize=true"  # else it is sent as plain text
        return f"{picture}[{link['text']}]({address})"

    return _LINK.sub(replace, markdown)
