"""Hooks of MkDocs: pages made from the code, pages of the top folder, and their links."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

import command_pages
import measurement_pages
import value_pages
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COPIED = {  # pages of the site that are kept elsewhere
    "index.md": ROOT / "README.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "tests.md": ROOT / "tests" / "README.md",
    "changelog.md": ROOT / "CHANGELOG.md",
}
PLACES = {  # files and folders that have a page: where it is
    **{path: uri for uri, path in COPIED.items()},
    DOCS / "adr": "explanation/decisions.md",
}
LINK = re.compile(r"(?P<text>\[[^\]]*\])\((?P<target>(?!https?:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def code_pages() -> Iterator[tuple[str, str]]:
    """Yield every file that is generated from the code."""
    for module in (command_pages, measurement_pages, value_pages):
        yield from module.pages()
    titles = {p.name: p.read_text().partition("\n")[0] for p in sorted((DOCS / "adr").glob("*.md"))}
    items = "".join(f"- [{title[2:]}](../adr/{name})\n" for name, title in titles.items())
    text = "# Decisions\n\nWhat was decided, why, and what it costs.\n\n"
    yield "explanation/decisions.md", f"{text}{items}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for uri, text in code_pages():
        files.append(File.generated(config, uri, content=text))
    for uri, path in COPIED.items():
        files.append(File.generated(config, uri, content=path.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages of the site; one to a file that has none becomes plain text."""
    del config
    uri = page.file.src_uri
    source = COPIED.get(uri, DOCS / uri)
    names = {DOCS / file.src_uri: file.src_uri for file in files} | PLACES

    def site_link(match: re.Match[str]) -> str:
        target = Path(posixpath.normpath(source.parent / match["target"]))
        if target not in names:
            return match["text"][1:-1] if target.exists() else match[0]  # MkDocs reports the latter
        relative = posixpath.relpath(names[target], posixpath.dirname(uri) or ".")
        return f"{match['text']}({relative}{match['anchor'] or ''})"

    return LINK.sub(site_link, markdown)
