"""A page of HTML that needs no other file."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

import msgspec

from cluster.analysis.judgement import Judgement
from cluster.core.model.value import Value
from cluster.reports.plots import Picture
from cluster.reports.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator


PROLOGUE = re.compile(rb".*?(?=<svg)", re.DOTALL)
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  margin: 0 auto; padding: 1rem; max-width: 76rem; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; margin: 0 0 .6rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #ddd; }
summary { font-weight: 600; padding: .4rem 0; border-bottom: 1px solid #ddd; cursor: pointer; }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
.verdicts { list-style: none; padding: 0; margin: 0; }
.verdicts li { padding: .6rem .8rem; margin: 0 0 .4rem; background: #eef4fb;
  border-left: 5px solid #1f5fa8; font-weight: 600; }
.verdicts li.normal { background: #eaf6ec; border-color: #1b7f3b; }
.verdicts li.low { background: #fff4e0; border-color: #b26a00; }
.verdicts li.impossible, .verdicts li.failed { background: #fdecea; border-color: #b3261e; }
.verdicts li.plausible, .verdicts li.unknown { background: #f4f4f4; border-color: #777; }
.normal .word { color: #1b7f3b; }
.low .word { color: #8f5500; }
.impossible .word, .failed .word { color: #b3261e; }
code { font-weight: 400; }
.verdicts li.bad { background: #fdecea; border-color: #b3261e; }
.note { color: #444; font-size: .9rem; margin: .3rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .55rem; border-bottom: 1px solid #e5e5e5; text-align: right;
  white-space: nowrap; }
th { position: sticky; top: 0; background: #fff; }
.l { text-align: left; }
td.long { white-space: normal; min-width: 22rem; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
figure { margin: 0; min-width: 0; }
figure svg { width: 100%; height: auto; display: block; touch-action: pan-y; }
#tip { position: fixed; z-index: 2; display: none; max-width: min(22rem, 92vw);
  padding: .35rem .6rem; background: #1a1a1a; color: #fff; font-size: .85rem;
  border-radius: 4px; pointer-events: none; }
"""
SCRIPT = """
const tips = JSON.parse(document.getElementById('tips').textContent);
const box = document.getElementById('tip');
function points(svg) {
  return [...svg.querySelectorAll('g[id]')].filter(g => tips[g.id]).flatMap(g =>
    [...g.querySelectorAll('use')].map((mark, i) => ({mark, text: tips[g.id][i]})));
}
function show(svg, event) {
  let best = null, least = 32;
  for (const {mark, text} of points(svg)) {
    const r = mark.getBoundingClientRect();
    const away = Math.hypot(r.x + r.width / 2 - event.clientX, r.y + r.height / 2 - event.clientY);
    if (text && away < least) { least = away; best = text; }
  }
  box.style.display = best ? 'block' : 'none';
  if (!best) return;
  box.textContent = best;
  const w = box.offsetWidth, h = box.offsetHeight;
  const x = Math.min(event.clientX + 14, innerWidth - w - 6);
  const y = event.clientY - h - 14;
  box.style.left = Math.max(6, x) + 'px';
  box.style.top = (y < 6 ? event.clientY + 18 : y) + 'px';
}
for (const svg of document.querySelectorAll('figure svg')) {
  svg.addEventListener('pointermove', event => show(svg, event));
  svg.addEventListener('pointerdown', event => show(svg, event));
  svg.addEventListener('pointerleave', () => { box.style.display = 'none'; });
}
"""
LONG = 80  # characters, from which a cell may break


class PageLink(Value, frozen=True, kw_only=True):
    """A file that a page points to.

    Args:
        text: that is shown.
        target: relative to the page.

    """

    text: str
    target: str


class PageSection(Value, frozen=True, kw_only=True):
    """A part of a page.

    Args:
        title: of it.
        pictures: side by side, where there is room.
        tables: below them.
        notes: below those.
        links: at the end.
        folded: shown once its title is touched.

    """

    title: str
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[PageLink, ...] = ()
    folded: bool = False


class Page(Value, frozen=True, kw_only=True):
    """A whole page: what came out first, and then why.

    Args:
        title: of it.
        answers: of each run: its word, and the line that answers.
        verdicts: what came out.
        warnings: what is wrong with it, above everything.
        sections: what it rests on.

    """

    title: str
    verdicts: tuple[str, ...]
    answers: tuple[Judgement, ...] = ()
    warnings: tuple[str, ...] = ()
    sections: tuple[PageSection, ...] = ()


def render_page(shown: Page) -> str:
    """Write a page.

    Args:
        shown: what is on it.

    Returns:
        HTML that loads nothing and works without a network.

    """
    pictures = [picture for section in shown.sections for picture in section.pictures]
    tips = {key: texts for picture in pictures for key, texts in picture.tips.items()}
    data = msgspec.json.encode(tips).decode().replace("<", "\\u003c")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(shown.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f'<h1>{escape(shown.title)}</h1>\n<ul class="verdicts">',
            *(_answer(answer) for answer in shown.answers),
            *(f'<li class="bad">{escape(warning)}</li>' for warning in shown.warnings),
            *(f"<li>{escape(verdict)}</li>" for verdict in shown.verdicts),
            "</ul>",
            *(line for section in shown.sections for line in _section(section)),
            '<div id="tip" role="status"></div>',
            f'<script type="application/json" id="tips">{data}</script>',
            f"<script>{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def _answer(judged: Judgement) -> str:
    next_ = f"Next: <code>{escape(judged.next_step)}</code>" if judged.next_step else ""
    word = f'<span class="word">{judged.word.upper()}</span>'
    return f'<li class="{judged.word}">{word} {escape(judged.answer)}. {next_}</li>'


def _section(section: PageSection) -> Iterator[str]:
    tags = ("<details>\n<summary>", "</summary>", "</details>")
    if not section.folded:
        tags = ("<section>\n<h2>", "</h2>", "</section>")
    yield tags[0] + escape(section.title) + tags[1]
    if section.pictures:
        yield '<div class="pictures">'
        for picture in section.pictures:
            image = PROLOGUE.sub(b"", picture.image, count=1).decode()
            yield f'<figure aria-label="{escape(picture.title)}">{image}</figure>'
        yield "</div>"
    for table in section.tables:
        yield from _table(table)
    yield from (f'<p class="note">{escape(note)}</p>' for note in section.notes)
    if section.links:
        links = (f'<a href="{escape(x.target)}">{escape(x.text)}</a>' for x in section.links)
        yield f"<p>{' &middot; '.join(links)}</p>"
    yield tags[2]


def _table(table: Table) -> Iterator[str]:
    yield f"<h3>{escape(table.title)}</h3>"
    if table.rows:
        classes = ["l" if column in table.left else "" for column in table.columns]
        yield '<div class="wide"><table>\n<thead><tr>'
        for column, name in zip(table.columns, classes, strict=True):
            yield f'<th class="{name}">{escape(column)}</th>'
        yield "</tr></thead>\n<tbody>"
        for row in table.rows:
            cells = (_cell(text, name) for text, name in zip(row, classes, strict=True))
            yield f"<tr>{''.join(cells)}</tr>"
        yield "</tbody></table></div>"
    yield from (f'<p class="note">{escape(note)}</p>' for note in table.notes)


def _cell(text: str, name: str) -> str:
    long = " long" if len(text) > LONG else ""
    return f'<td class="{name}{long}">{escape(text)}</td>'
