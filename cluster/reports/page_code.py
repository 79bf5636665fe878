"""The style and the script of a report's page, which loads nothing else."""

STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --paper: #fff; --line: #ddd; --faint: #555;
  --plain: #f2f3f5; --note: #eef4fb; --blue: #1f5fa8; --green: #1b7f3b; --amber: #8f5500;
  --red: #b3261e; --good: #eaf6ec; --warn: #fff4e0; --bad: #fdecea; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --paper: #16181c; --line: #3a3d44; --faint: #a9adb5;
    --plain: #23262c; --note: #1b2838; --blue: #7db4ee; --green: #6fce8a; --amber: #f0b45a;
    --red: #ff8a80; --good: #18301f; --warn: #36290f; --bad: #3b1c1a; }
  figure svg [style*="stroke: #000000"] { stroke: var(--text) !important; }
  figure svg [style*="fill: #000000"] { fill: var(--text) !important; }
  figure svg [style*="stroke: #1f77b4"] { stroke: #5aa9e6 !important; }
  figure svg [style*="fill: #1f77b4"] { fill: #5aa9e6 !important; }
}
* { box-sizing: border-box; }
body { font: 16px/1.45 system-ui, sans-serif; color: var(--text); background: var(--paper);
  margin: 0 auto; padding: 1rem; max-width: 90rem; overflow-wrap: anywhere; }
a { color: var(--blue); }
h1 { font-size: 1.3rem; margin: 0 0 .6rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
summary { font-weight: 600; padding: .4rem 0; border-bottom: 1px solid var(--line);
  cursor: pointer; }
h3, caption { font-size: 1rem; font-weight: 700; margin: 1rem 0 .3rem; }
caption { text-align: left; padding: .8rem 0 .3rem; }
caption span { display: block; width: max-content; max-width: calc(100vw - 2rem);
  position: sticky; left: 0; }
.verdicts { list-style: none; padding: 0; margin: 0; }
.verdicts li { padding: .6rem .8rem; margin: 0 0 .4rem; background: var(--note);
  border-left: 5px solid var(--blue); font-weight: 600; }
.verdicts li.normal { background: var(--good); border-color: var(--green); }
.verdicts li.low { background: var(--warn); border-color: var(--amber); }
.verdicts li.impossible, .verdicts li.failed, .verdicts li.bad { background: var(--bad);
  border-color: var(--red); }
.verdicts li.plausible, .verdicts li.unknown { background: var(--plain);
  border-color: var(--faint); }
.word { font-weight: 700; }
.normal .word { color: var(--green); }
.low .word { color: var(--amber); }
.impossible .word, .failed .word { color: var(--red); }
code { font-weight: 400; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; margin: .8rem 0 0;
  list-style: none; font-size: .9rem; }
input { font: inherit; padding: .25rem .5rem; max-width: 100%; }
.note, figcaption { color: var(--faint); font-size: .9rem; margin: .3rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .55rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--paper); }
tbody th { font-weight: 400; }
.sortable thead th { padding: 0; }
.sortable thead button { font: inherit; color: inherit; background: none; border: 0;
  padding: .3rem .55rem; cursor: pointer; text-align: inherit; }
.sortable button::after { content: " \\2195"; opacity: .5; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
.l { text-align: left; }
td.long { white-space: normal; min-width: 22rem; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 46rem; }
figure svg { width: 100%; height: auto; display: block; touch-action: pan-y; }
figure svg [style*="fill: #ffffff"] { fill: none !important; }
figure svg text { fill: var(--text) !important; }
figure svg use:focus { outline: 2px solid var(--blue); outline-offset: 3px; }
:focus-visible { outline: 2px solid var(--blue); }
#tip { position: fixed; z-index: 2; display: none; max-width: min(22rem, 92vw);
  padding: .35rem .6rem; background: #1a1a1a; color: #fff; font-size: .85rem;
  border: 1px solid #777; border-radius: 4px; pointer-events: none; }
@media print { #tip, nav, label { display: none !important; } }
"""

SCRIPT = """
const tips = JSON.parse(document.getElementById('tips').textContent);
const box = document.getElementById('tip');
const lines = [...document.querySelectorAll('figure svg g[id]')].filter(g => tips[g.id]);
for (const line of lines) {
  const marks = [...line.querySelectorAll('use')];
  marks.forEach((mark, i) => {
    mark.setAttribute('role', 'img');
    mark.setAttribute('aria-label', tips[line.id][i] || '');
    mark.setAttribute('tabindex', i ? '-1' : '0');
    mark.addEventListener('focus', () => {
      const r = mark.getBoundingClientRect();
      tell(tips[line.id][i], r.x + r.width / 2, r.y + r.height / 2);
    });
    mark.addEventListener('blur', hide);
    mark.addEventListener('keydown', event => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      const next = marks[i + (step || 0)];
      if (event.key === 'Escape') hide();
      if (!step || !next) return;
      event.preventDefault();
      mark.setAttribute('tabindex', '-1');
      next.setAttribute('tabindex', '0');
      next.focus();
    });
  });
}
function hide() { box.style.display = 'none'; }
function tell(text, across, down) {
  if (!text) { hide(); return; }
  box.style.display = 'block';
  box.textContent = text;
  const w = box.offsetWidth, h = box.offsetHeight;
  const x = Math.min(across + 14, innerWidth - w - 6);
  const y = down - h - 14;
  box.style.left = Math.max(6, x) + 'px';
  box.style.top = (y < 6 ? down + 18 : y) + 'px';
}
function show(svg, event) {
  let best = null, least = 32;
  for (const line of lines.filter(g => svg.contains(g))) {
    [...line.querySelectorAll('use')].forEach((mark, i) => {
      const r = mark.getBoundingClientRect();
      const x = r.x + r.width / 2 - event.clientX, y = r.y + r.height / 2 - event.clientY;
      const away = Math.hypot(x, y);
      if (tips[line.id][i] && away < least) { least = away; best = tips[line.id][i]; }
    });
  }
  tell(best, event.clientX, event.clientY);
}
for (const svg of document.querySelectorAll('figure svg')) {
  svg.addEventListener('pointermove', event => show(svg, event));
  svg.addEventListener('pointerdown', event => show(svg, event));
  svg.addEventListener('pointerleave', hide);
}
const runs = document.getElementById('runs');
if (runs) {
  const body = runs.tBodies[0], rows = [...body.rows];
  const filter = document.getElementById('filter'), left = document.getElementById('left');
  const section = row => document.querySelector(row.querySelector('a').getAttribute('href'));
  filter.addEventListener('input', () => {
    const words = filter.value.toLowerCase().split(/\\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
      section(row).hidden = row.hidden;
    }
    left.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
  });
  [...runs.tHead.rows[0].children].forEach((head, i) => {
    const button = document.createElement('button');
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      for (const other of runs.tHead.rows[0].children) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const text = row => row.children[i].textContent;
      const order = (a, b) => text(a).localeCompare(text(b), undefined, {numeric: true});
      rows.sort((a, b) => up ? order(a, b) : order(b, a));
      body.append(...rows);
    });
  });
  addEventListener('hashchange', open);
  open();
}
function open() {
  const part = location.hash && document.getElementById(location.hash.slice(1));
  if (part && part.tagName === 'DETAILS') part.open = true;
}
"""
