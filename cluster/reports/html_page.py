"""A page of HTML that needs no other file; what it looks like is in `templates`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.core.model.results.measurements import Summary
from cluster.core.model.value import Value
from cluster.reports.plots import Picture
from cluster.reports.table import Table, summaries_table
from cluster.reports.words.verdict import Answer

if TYPE_CHECKING:
    from jinja2 import Environment


PROLOGUE = re.compile(rb".*?(?=<svg)", re.DOTALL)
WORDS = ("NORMAL", "LOW", "IMPOSSIBLE", "FAILED", "PLAUSIBLE", "UNKNOWN")  # of verdicts
COMMAND = re.compile(r"(?:^|(?<=: ))cluster .+$")  # at the end of a next step
COLOURS = {"normal": "#2e9e4f", "low": "#c77700", "impossible": "#d0453b", "failed": "#d0453b"}
"""Colours of verdicts, readable on white and on black; other verdicts have no colour."""
MOST_ROWS = 60  # of a table in a notebook


class PageLink(Value, frozen=True, kw_only=True):
    """A file that a page points to."""

    text: str
    target: str  # the file, relative to the page


class PageSection(Value, frozen=True, kw_only=True):
    title: str
    word: str = ""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[PageLink, ...] = ()
    is_folded: bool = False


class Page(Value, frozen=True, kw_only=True):
    """A whole page: results first, then what they are based on."""

    title: str
    verdicts: tuple[str, ...]
    answers: tuple[Answer, ...] = ()
    warnings: tuple[str, ...] = ()
    # a table of many runs; the first cell of each row is the title of its section
    index: Table | None = None
    sections: tuple[PageSection, ...] = ()


def render_page(page: Page) -> str:
    pictures = [picture for section in page.sections for picture in section.pictures]
    tips = {key: texts for picture in pictures for key, texts in picture.tips.items()}
    data = msgspec.json.encode(tips).decode().replace("<", "\\u003c")
    return _templates().get_template("page.html").render(page=page, tips=data)


@cache
def _templates() -> Environment:
    import jinja2  # noqa: PLC0415 - only where a page is written
    from markupsafe import Markup  # noqa: PLC0415

    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("cluster.reports"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "classes": lambda table: ["l" if c in table.left_aligned else "" for c in table.columns],
        "firsts": lambda table: {row[0] for row in table.rows} if table else set(),
        "places": _places,
        "split_step": _split_step,
        "svg": lambda picture: Markup(PROLOGUE.sub(b"", picture.image, count=1).decode()),  # noqa: S704 - matplotlib's
    }
    templates.tests["verdict"] = WORDS.__contains__
    return templates


def _places(sections: Sequence[PageSection]) -> dict[str, str]:
    return {section.title: f"#part-{number}" for number, section in enumerate(sections)}


def _split_step(step: str) -> tuple[str, str]:
    match = COMMAND.search(step)
    return (step[: match.start()], match[0]) if match else (step, "")


def run_html(name: str, answer: Answer, summaries: Sequence[Summary], notes: Sequence[str]) -> str:
    first = summaries[:MOST_ROWS]
    more = len(summaries) - len(first)
    rest = [f"And {more} more: run.summary() has all."] if more else []
    table = summaries_table(first, title=name, notes=(*notes, *rest))
    word = f'<b style="color: {COLOURS.get(answer.word, "inherit")}">{answer.word.upper()}</b>'
    step = f" {_parts().next(answer.next_step)}" if answer.next_step else ""
    return f"<p>{word} {escape(answer.answer)}.{step}</p>" + tables_html([table])


def tables_html(tables: Sequence[Table]) -> str:
    """Write tables, without the style of a page."""
    return "\n".join(str(_parts().table(table)) for table in tables)


def _parts() -> Any:  # noqa: ANN401 - its macros are known to Jinja only
    return _templates().get_template("parts.html").module
