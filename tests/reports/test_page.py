"""Reports in a real browser: what they show, on a phone, without a network."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from cluster.analysis.statistics.compare import Comparison, ComparisonCell
from cluster.analysis.statistics.factors import factors
from cluster.core.model.results.records import Note, Record
from cluster.core.model.spec import ClusterSpec
from cluster.reports import page as pages
from cluster.reports import plots
from cluster.runs import store
from cluster.runs.catalog import load
from tests.analysis.test_summarize import definition, measurement
from tests.browser import Browser
from tests.conftest import ROOT, answer, command, runs_folder
from tests.plain_values import plain_record
from tests.snapshots import Snapshot

pytestmark = pytest.mark.quick(False)  # pictures and a browser


TIME = definition(metric="latency")
RATE = definition(metric="bandwidth", unit="B/s")
DEFINITIONS = {d.id: d for d in (TIME, RATE)}
TRICKY = "<script>alert('1 & 2')</script> $x$"


def saved(name: str, times: float = 1.0, when: float = 1e9, **fields: Any) -> Path:
    """Write a run with two sweeps."""
    folder = store.create(runs_folder(), name, "test", when)
    record = plain_record(name, id=folder.name, at=when, definitions=DEFINITIONS, **fields)
    store.write(folder, record)
    for size in (8 * 4**k for k in range(8)):
        seconds = times * (1e-6 + size / 1e10)
        values = tuple(seconds * (1 + 0.001 * k) for k in range(20))
        store.append(
            folder,
            [
                msgspec.structs.replace(measurement(spec, values, size=size), params={"size": size})
                for spec in (TIME, RATE)
            ],
        )
    return folder


def plot(home: Path, *words: str) -> str:
    """Return the picture that `cluster plot` draws."""
    command("plot", *words)
    return (home / "plot.svg").read_text()


@pytest.fixture(scope="module")
def _one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start one for all tests: it takes seconds of a processor."""
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(_one_browser: Browser) -> Browser:
    _one_browser.look(390, "light")
    return _one_browser


def test_a_report_of_one_run_on_a_phone(browser: Browser, home: Path) -> None:
    folder = saved("one", notes=(TRICKY,))
    page = home / "report.html"
    command("report", "one", "-o", str(page))
    browser.open(page)

    assert browser.complaints == []
    assert [url for url in browser.asked_for if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in browser.asked_for if url.startswith("file:")]) == 1
    assert browser.ask("document.documentElement.scrollWidth") <= 390, "it scrolls sideways"
    first = browser.ask("document.querySelector('.verdicts li').textContent")
    assert first.startswith("UNKNOWN latency 8 B: 1.0")
    verdicts = browser.ask("document.querySelector('.verdicts').textContent")
    assert "latency 8 B: 1.0" in verdicts
    assert browser.ask("document.querySelector('.verdicts').getBoundingClientRect().top") < 200
    assert browser.ask("document.querySelectorAll('figure svg').length") == 2
    captions = browser.ask("[...document.querySelectorAll('figcaption')].map(x => x.textContent)")
    assert "the median of 20 values of latency" in captions[0]
    assert "alpha + size / beta" in captions[0]
    text = browser.ask("document.body.innerText")
    assert TRICKY in text
    assert "t = alpha + size / beta" in text
    assert browser.ask("document.querySelectorAll('tbody tr').length") > 16
    links = browser.ask("[...document.querySelectorAll('a')].map(a => a.href)")
    assert f"{folder.as_uri()}/run.json" in links
    assert f"{folder.as_uri()}/measurements.jsonl" in links


def test_a_point_tells_its_values_when_it_is_pointed_at_or_touched(
    browser: Browser, home: Path
) -> None:
    saved("one")
    page = home / "report.html"
    command("report", "one", "-o", str(page))
    browser.open(page)
    place = browser.ask("""(() => {
      const mark = document.querySelector('g#s0-0 use');
      mark.scrollIntoView({block: 'center'});
      const r = mark.getBoundingClientRect();
      return {x: r.x + r.width / 2, y: r.y + r.height / 2};
    })()""")
    text = "getComputedStyle(document.getElementById('tip')).display + ' ' + tip.textContent"

    assert browser.ask(text).startswith("none")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
    label = browser.ask(text)
    assert label.startswith("block one, ")
    assert "8 B, 1.0" in label
    assert "95% CI" in label
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[place])
    assert browser.ask(text) == label
    inside = browser.ask(
        "(r => r.left >= 0 && r.right <= innerWidth && r.top >= 0)(tip.getBoundingClientRect())"
    )
    assert inside
    assert browser.complaints == []


def test_the_share_of_the_limit_is_in_view_on_a_phone(browser: Browser, home: Path) -> None:
    page = home / "report.html"
    command("judge", str(ROOT / "tests" / "logs" / "nccl_tests.hopper.txt"), "--keep")
    command("report", "latest", "-o", str(page))
    browser.open(page)
    row = "[...document.querySelector('.wide table').rows[1].cells]"
    ends = browser.ask(f"{row}.map(x => x.getBoundingClientRect().right)")

    assert max(ends) <= 390
    assert browser.ask("document.querySelectorAll('.verdicts li').length") == 2


def test_the_verdict_of_an_experiment_stands_first(
    snapshot: Snapshot, browser: Browser, home: Path
) -> None:
    for number in range(5):
        saved("ab", 1 + 0.001 * number, 1e9 + number, condition="links=1")
        saved("ab", 2 + 0.001 * number, 1e9 + number, condition="links=4")
    saved("ab", 1.0, 2e9, condition="links=1", status="failed", reason="A rank died.")
    page = home / "report.html"
    command("report", "ab", "-o", str(page))
    browser.open(page)
    lines = browser.ask("[...document.querySelectorAll('.verdicts li')].map(x => x.textContent)")

    snapshot(lines[0])
    snapshot(lines[1])
    assert browser.ask("document.querySelectorAll('figure svg').length") == 3
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    assert browser.complaints == []


def test_many_runs_are_filtered_and_sorted_in_both_schemes_at_any_width(
    browser: Browser, home: Path
) -> None:
    for number in range(10):
        saved(f"run{number}", 1 + number, 1e9 + number)
    saved("broken", 1.0, 2e9, status="failed", reason="A rank died.")
    page = home / "report.html"
    command("report", *(f"run{number}" for number in range(10)), "broken", "-o", str(page))
    for width in (390, 1280, 1920):
        for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 28)")):
            browser.look(width, scheme)
            browser.open(page)
            assert browser.complaints == []
            assert browser.ask("document.documentElement.scrollWidth") <= width
            assert browser.ask("getComputedStyle(document.body).backgroundColor") == paper
            text = browser.ask("getComputedStyle(document.querySelector('figure text')).fill")
            assert (text == "rgb(230, 230, 230)") == (scheme == "dark")
    query = "[...runs.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[0].textContent)"
    assert len(browser.ask(query)) == 11
    assert browser.ask("document.querySelectorAll('details').length") == 11
    browser.ask("filter.value = 'failed rank'; filter.dispatchEvent(new Event('input'))")
    [name] = browser.ask(query)
    assert name.startswith("broken/")
    assert browser.ask("document.getElementById('left').textContent") == "1 of 11"
    assert browser.ask("document.querySelectorAll('details:not([hidden])').length") == 1
    browser.ask("filter.value = ''; filter.dispatchEvent(new Event('input'))")
    browser.ask("[...document.querySelectorAll('#runs thead button')].at(-1).click()")
    assert browser.ask(query)[-1].startswith("broken/")
    browser.ask("[...document.querySelectorAll('#runs thead button')].at(-1).click()")
    assert browser.ask(query)[0].startswith("broken/")
    assert browser.ask("document.querySelector('[aria-sort]').textContent") == "started (UTC)"
    browser.ask("document.querySelector('#runs a').click()")
    assert browser.ask("document.querySelectorAll('details[open]').length") == 1
    colours = "getComputedStyle(document.querySelector('#runs .failed .word')).color"
    assert browser.ask(colours) == "rgb(255, 138, 128)"
    assert browser.ask("document.querySelectorAll('th:not([scope])').length") == 0
    assert browser.ask("document.querySelectorAll('table:not(:has(caption))').length") == 0
    assert browser.ask("document.querySelectorAll('figure:not(:has(figcaption))').length") == 0


def test_points_are_reached_with_the_keyboard(browser: Browser, home: Path) -> None:
    saved("one")
    page = home / "report.html"
    command("report", "one", "-o", str(page))
    browser.look(1280, "dark")
    browser.open(page)
    reached = "document.querySelectorAll('figure use[tabindex=\"0\"]').length"
    assert browser.ask(reached) == browser.ask("Object.keys(tips).length") == 2
    browser.ask("document.querySelector('figure use[tabindex=\"0\"]').focus()")
    first = browser.ask("document.getElementById('tip').textContent")
    assert "8 B, 1.0" in first
    assert browser.ask("document.activeElement.getAttribute('aria-label')") == first
    browser.press("ArrowRight")
    second = browser.ask("document.getElementById('tip').textContent")
    assert "32 B, 1.0" in second
    browser.press("Escape")
    assert browser.ask("getComputedStyle(document.getElementById('tip')).display") == "none"
    assert browser.complaints == []


def test_a_report_without_values_says_so(home: Path) -> None:
    folder = store.create(runs_folder(), "none", "test", 1e9)
    spec = ClusterSpec(name="none")
    store.write(
        folder,
        Record(id="n", benchmark="test", status="failed", at=1e9, spec=spec, reason="No host."),
    )
    command("report", "none")
    text = (home / "report.html").read_text()

    assert "No host." in text
    assert "http://" not in text.replace("http://www.w3.org/", "")


def test_a_run_that_cannot_be_read_is_left_out_and_said(home: Path, snapshot: Snapshot) -> None:
    saved("some")
    folder = saved("some", when=1e9 + 1)
    (folder / store.RECORD).write_text("{")
    result = command("report", "some")

    assert folder.name in result.stderr
    assert folder.name not in (home / "report.html").read_text()
    snapshot(command("report", "some", "-o", "no/where.html", status=2).stderr)


@pytest.mark.parametrize("kind", ["sweep", "distribution"])
@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
def test_pictures_of_a_run(home: Path, kind: str, form: str) -> None:
    saved("one")
    command("plot", "one", "--kind", kind, "-o", f"out.{form}")
    image = (home / f"out.{form}").read_bytes()

    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert image.startswith(begins[form])
    if form == "svg":
        assert b"latency" in image


def test_a_condition_of_several_launches_is_one_line_with_its_range(
    home: Path, snapshot: Snapshot
) -> None:
    for number in range(5):
        saved("ab", 1 + 0.1 * number, 1e9 + number, condition="links=1")
        saved("ab", 3 + 0.1 * number, 1e9 + number, condition="links=4")
    saved("other", 9.0)
    svg = plot(home, "ab", "other", "--metric", "latency", "--bound", "10gbit")

    for words in (
        "links=1 (5 launches)<",
        "links=4 (5 launches)<",
        "other<",
        "limit: 10gbit, as given<",
    ):
        assert svg.count(f">{words}") == 1, words
    assert svg.count("lowest and highest launch") == 1
    snapshot(command("plot", "ab", "--bound", "fast", status=2).stderr)


def test_a_distribution_names_conditions_and_says_what_it_leaves_out(home: Path) -> None:
    saved("ab", condition="links=1")
    saved("ab", 3.0, 1e9 + 1, condition="links=4")
    svg = plot(home, "ab", "--kind", "distribution", "--metric", "latency")

    assert ">8 B<" in svg
    assert "(the first 8 of 16 series): links=1, rank 0" in svg, "what is common to all"


def cell(better: Literal["lower", "higher"], *shares: float | None) -> ComparisonCell:
    first, second = shares
    return ComparisonCell(
        metric=f"{better} is better",
        params={"size": 8},
        unit="s",
        better=better,
        base=1.0,
        other=1.1,
        launches=(5, 5),
        shares=(first, second),
        ratio=1.1,
        interval=(1.05, 1.15),
        verdict="slower",
    )


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ((cell("lower", 0.8, 0.7), cell("higher", 0.5, 0.55)), "limit"),
        ((cell("lower", 0.1, 0.1),), "the limits are more than 4 x away"),
        ((cell("lower", None, None),), "no limit is known"),
    ],
)
def test_a_picture_of_a_comparison_marks_the_bounds(
    cells: tuple[ComparisonCell, ...], says: str
) -> None:
    comparison = Comparison(base="a", other="b", threshold=0.03, factors=(), cells=cells, notes=())
    picture = plots.comparison(comparison)

    assert f">{says}<" in picture.image.decode()
    [words] = picture.tips.values()
    assert ("80.0% and 70.0%" in words[0]) == (says == "limit")


def test_a_distribution_marks_the_bounds(home: Path) -> None:
    saved("one")
    svg = plot(home, "one", "--kind", "distribution", "--metric", "latency")
    assert ">no limit is known<" in svg

    bounded = plots.distribution("t", "s", {"x": [1e-6, 2e-6], "y": [3e-6]}, {"x": 9e-7})
    assert ">limit<" in bounded.image.decode()
    assert len(re.findall(r">[\d.]+ µs<", bounded.image.decode())) > 2, "an axis has numbers"


def test_a_picture_of_efficiencies_over_ranks(home: Path) -> None:
    for hosts, times in ((1, 1.0), (2, 1.1), (4, 1.3)):
        saved(f"of{hosts}", times, spec=ClusterSpec(name=f"of{hosts}", hosts=hosts))
    svg = plot(home, "of1", "of2", "of4", "--kind", "scaling", "--metric", "latency, 8 B")

    assert "latency, 8 B (base: 1)" in svg
    assert ">ranks<" in svg


def test_runs_without_a_condition_are_told_apart(home: Path) -> None:
    first, second = saved("one"), saved("one", when=1e9 + 1)
    svg = plot(home, "one")

    for folder in (first, second):
        assert f">one/{folder.name}<" in svg


def test_a_bound_that_was_told_gives_shares_and_doubts(home: Path, snapshot: Snapshot) -> None:
    """Each point says its share of the bound; a network that cannot be is doubted aloud."""
    saved("one")
    command("plot", "one", "--metric", "bandwidth", "--bound", "80gbit", "-o", "fits.svg")
    command("plot", "one", "--metric", "latency", "-o", "unknown.svg")
    wrong = command("plot", "one", "--metric", "bandwidth", "--bound", "1gbit", "-o", "wrong.svg")

    assert re.search(r">one, up to 9\d.\d% of the limit<", (home / "fits.svg").read_text())
    assert "80gbit" in (home / "fits.svg").read_text()
    snapshot(wrong.stderr)


def test_pictures_of_several_runs(home: Path, snapshot: Snapshot) -> None:
    saved("ab", condition="x=1")
    saved("ab", 2.0, 1e9 + 1, condition="x=2")
    svg = plot(home, "ab", "--kind", "comparison", "--metric", "latency")
    assert ">x=2 against x=1<" in svg
    assert ">1<" in svg, "an axis of ratios has numbers"
    for words in (("-o", "a.gif"), ("--metric", "gossip"), ("--kind", "scaling")):
        snapshot(command("plot", "ab", *words, status=2).stderr)


def test_low_runs_are_on_top_of_a_page_of_many(home: Path) -> None:
    """Of few runs each is answered; of many those that are bad, by their names."""
    log = ROOT / "tests" / "logs" / "nccl_tests.hopper.txt"  # 59% of what NVLink carries
    command("import", str(log), "--name", "slow")
    for number in range(pages.FEW):
        saved(f"run{number}", when=1e9 + number)
    runs = [run.as_reported(home) for run in (load(f"run{n}") for n in range(pages.FEW))]
    slow = load("slow").as_reported(home)

    assert [a.about for a in pages.answers([*runs, slow])] == [slow.name]
    assert [a.word for a in pages.answers([*runs, slow])] == ["low"]
    few = pages.answers([*runs[:2], slow])
    assert [a.about for a in few] == [slow.name, *(run.name for run in runs[:2])]


@pytest.mark.usefixtures("home")
def test_notes_are_kept_as_kinds_and_shown_in_words() -> None:
    """A text is a benchmark's own, or of an older run."""
    note = "a text"
    folder = saved("one", notes=(note, Note("not_shared", (2,), title="osu")))

    notes = json.loads((folder / store.RECORD).read_text())["notes"]
    assert notes == [note, {"kind": "not_shared", "values": [2], "title": "osu"}]
    text, words, *_ = answer("show", "one")["notes"]
    assert (text, words[:7]) == (note, "osu: 2 ")
    assert dict(factors(store.record(folder)))["notes"] == f"{note} not_shared 2"
