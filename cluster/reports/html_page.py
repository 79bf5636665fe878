"""A page of HTML that needs no other file."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.judgement import Judgement
from cluster.core.model.value import Value
from cluster.reports.page_code import SCRIPT, STYLE
from cluster.reports.plots import Picture
from cluster.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


PROLOGUE = re.compile(rb".*?(?=<svg)", re.DOTALL)
FEWEST_LISTED = 4  # from this number of sections, a page has a list of contents
WORDS = ("normal", "low", "impossible", "failed", "plausible", "unknown")  # of verdicts
COMMAND = re.compile(r"(?:^|(?<=: ))cluster .+$")  # at the end of a next step
LONG = 80  # from this number of characters, a cell may wrap


class PageLink(Value, frozen=True, kw_only=True):
    """A file that a page points to.

    Args:
        target: the file, relative to the page.

    """

    text: str
    target: str


class PageSection(Value, frozen=True, kw_only=True):
    """A part of a page."""

    title: str
    word: str = ""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[PageLink, ...] = ()
    folded: bool = False


class Page(Value, frozen=True, kw_only=True):
    """A whole page: results first, then what they are based on.

    Args:
        index: a table of many runs; the first cell of each row is the title of its section.

    """

    title: str
    verdicts: tuple[str, ...]
    answers: tuple[Judgement, ...] = ()
    warnings: tuple[str, ...] = ()
    index: Table | None = None
    sections: tuple[PageSection, ...] = ()


def render_page(shown: Page) -> str:
    """Write a page."""
    pictures = [picture for section in shown.sections for picture in section.pictures]
    tips = {key: texts for picture in pictures for key, texts in picture.tips.items()}
    data = msgspec.json.encode(tips).decode().replace("<", "\\u003c")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(shown.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f'<main>\n<h1>{escape(shown.title)}</h1>\n<ul class="verdicts">',
            *(_answer(answer) for answer in shown.answers),
            *(f'<li class="bad">{escape(warning)}</li>' for warning in shown.warnings),
            *(f"<li>{escape(verdict)}</li>" for verdict in shown.verdicts),
            "</ul>",
            *_contents(shown),
            *(
                line
                for number, section in enumerate(shown.sections)
                for line in _section(section, number)
            ),
            '<div id="tip" role="status" aria-live="polite"></div>',
            f'<script type="application/json" id="tips">{data}</script>',
            f"<script>{SCRIPT}</script>\n</main>\n</body>\n</html>\n",
        ]
    )


def _answer(judged: Judgement) -> str:
    next_ = next_html(judged.next_step)
    word = f'<span class="word">{judged.word.upper()}</span>'
    return f'<li class="{judged.word}">{word} {escape(judged.answer)}. {next_}</li>'


def next_html(step: str) -> str:
    """Write the next step: a command as code, and prose before it as prose.

    Args:
        step: such as `cluster bench p2p`, or `compare it: cluster compare A B`; may be empty.

    """
    if not step:
        return ""
    prose, code = step, ""
    if match := COMMAND.search(step):
        prose, code = step[: match.start()], f"<code>{escape(match[0])}</code>"
    return f"Next: {escape(prose)}{code}"


def _contents(shown: Page) -> Iterator[str]:
    """Link to the sections: by a list, or for many runs by a table to filter and sort."""
    places = {section.title: number for number, section in enumerate(shown.sections)}
    runs = set() if shown.index is None else {row[0] for row in shown.index.rows}
    links = [
        f'<li><a href="#part-{number}">{escape(title)}</a></li>'
        for title, number in places.items()
        if title not in runs
    ]
    if len(places) >= FEWEST_LISTED:
        yield f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>'
    if shown.index is None:
        return
    yield '<p><label>Filter: <input type="search" id="filter"></label> <output id="left"></output>'
    yield "</p>"
    links_of = {title: f"#part-{number}" for title, number in places.items()}
    yield from _table_lines(shown.index, links_of, 'id="runs" class="sortable"')


def _section(section: PageSection, number: int) -> Iterator[str]:
    tags = (f'<details id="part-{number}">\n<summary>', "</summary>", "</details>")
    if not section.folded:
        tags = (f'<section id="part-{number}">\n<h2>', "</h2>", "</section>")
    word = ""
    if section.word:
        word = (
            f' <span class="{section.word}"><span class="word">{section.word.upper()}</span></span>'
        )
    yield tags[0] + escape(section.title) + word + tags[1]
    if section.pictures:
        yield '<div class="pictures">'
        for picture in section.pictures:
            image = PROLOGUE.sub(b"", picture.image, count=1).decode()
            caption = f"<figcaption>{escape(picture.caption or picture.title)}</figcaption>"
            yield f"<figure>{image}{caption}</figure>"
        yield "</div>"
    for table in section.tables:
        yield from table_html(table)
    yield from (f'<p class="note">{escape(note)}</p>' for note in section.notes)
    if section.links:
        links = (f'<a href="{escape(x.target)}">{escape(x.text)}</a>' for x in section.links)
        yield f"<p>{' &middot; '.join(links)}</p>"
    yield tags[2]


def table_html(table: Table) -> Iterator[str]:
    """Write a table."""
    yield from _table_lines(table, {}, "")


def _table_lines(table: Table, links: Mapping[str, str], attributes: str) -> Iterator[str]:
    """Write a table; a first cell that is in `links` becomes a link."""
    if not table.rows:
        yield f"<h3>{escape(table.title)}</h3>"
    else:
        classes = ["l" if column in table.left else "" for column in table.columns]
        yield f'<div class="wide" tabindex="0"><table {attributes}>'
        yield f"<caption><span>{escape(table.title)}</span></caption>\n<thead><tr>"
        for column, name in zip(table.columns, classes, strict=True):
            yield f'<th scope="col" class="{name}">{escape(column)}</th>'
        yield "</tr></thead>\n<tbody>"
        for first, *others in table.rows:
            cells = (_cell(text, name) for text, name in zip(others, classes[1:], strict=True))
            linked = escape(first)
            if first in links:
                linked = f'<a href="{links[first]}">{linked}</a>'
            head = f'<th scope="row" class="{classes[0]}">{linked}</th>'
            yield f"<tr>{head}{''.join(cells)}</tr>"
        yield "</tbody></table></div>"
    yield from (f'<p class="note">{escape(note)}</p>' for note in table.notes)


def _cell(text: str, name: str) -> str:
    long = " long" if len(text) > LONG else ""
    word = f" {text.lower()}" if text.lower() in WORDS and text.isupper() else ""
    shown = f'<span class="word">{escape(text)}</span>' if word else escape(text)
    return f'<td class="{name}{long}{word}">{shown}</td>'
