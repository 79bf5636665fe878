"""The page that lists the decisions (ADRs)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "adr"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the page."""
    lines = []
    for path in sorted(FOLDER.glob("*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}](../adr/{path.name})")
    listed = "\n".join(lines)
    yield (
        "explanation/decisions.md",
        f"# Decisions\n\nWhat was decided, why, and what it costs.\n\n{listed}\n",
    )
