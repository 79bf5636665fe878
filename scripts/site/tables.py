"""Markdown tables, and the docstrings that fill them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import msgspec
from griffe import Docstring, DocstringSectionKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


FIELD = re.compile(r"((?:^    # .*\n)*)^    (\w+): [^#\n]*(?:# (.*))?$", re.MULTILINE)


def page(title: str, introduction: str, *parts: str) -> str:
    """Lay out a page."""
    return "\n\n".join((f"# {title}", " ".join(introduction.split()), *parts)) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a table."""
    lines = [_line(row) for row in rows]
    return "\n".join([_line(heads), _line(["---"] * len(heads)), *lines, ""]) if lines else ""


def _line(cells: Iterable[object]) -> str:
    texts = (" ".join(str(cell).split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"


def first_sentence(subject: object) -> str:
    """Return the first paragraph of a docstring, as one line."""
    return " ".join((inspect.getdoc(subject) or "").partition("\n\n")[0].split())


def paragraphs(subject: object) -> str:
    """Return what a docstring says before its sections."""
    sections = _sections(subject)
    return "\n\n".join(text for kind, text in sections if kind is DocstringSectionKind.text)


def field_texts(kind: type) -> dict[str, str]:
    """Return what a value and its bases say of their fields: under `Args:`, or in comments."""
    sentences: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = base.__dict__.get("__doc__") or ""
        for section in Docstring(inspect.cleandoc(text)).parse("google", warnings=False):
            if section.kind is DocstringSectionKind.parameters:
                sentences |= {item.name: _sentence(item.description) for item in section.value}
        if msgspec.Struct in base.__mro__[1:]:
            sentences |= _field_comments(inspect.getsource(base))
    return sentences


def _field_comments(source: str) -> dict[str, str]:
    """Return the comment on the line of each field, or those on the lines above it."""
    sentences = {}
    for block, name, comment in FIELD.findall(source):
        comments = [line.strip("# ") for line in block.splitlines()] or [comment]
        if text := " ".join(comments).partition("noqa")[0].strip():
            sentences[name] = _sentence(text.rstrip(".") + ".")
    return sentences


def _sections(subject: object) -> Iterator[tuple[DocstringSectionKind, str]]:
    text = inspect.getdoc(subject) or ""
    for section in Docstring(text).parse("google", warnings=False):
        yield section.kind, section.value if isinstance(section.value, str) else ""


def _sentence(text: str) -> str:
    plain = " ".join(text.split())
    first = plain.partition(" ")[0]
    if ":" in first:  # a value to type, such as `leafspine:2x2`
        return plain
    return plain[:1].upper() + plain[1:]
