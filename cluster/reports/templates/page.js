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
    const words = filter.value.toLowerCase().split(/\s+/);
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
