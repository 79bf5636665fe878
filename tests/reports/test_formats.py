"""The reports, each against small outputs written by hand."""

import csv
import io
import json

import msgspec
import pytest

from cluster.core import plugins
from cluster.core.model.results.measurements import Distribution, Summary
from cluster.reports.formats import Report
from cluster.reports.table import remarks, summaries_table
from tests.plain_values import plain_summary
from tests.snapshots import Snapshot

LATENCY = plain_summary(
    1.116e-6,
    metric="latency",
    params={"size": 8},
    n=1000,
    ci=(1.1e-6, 1.125e-6),
    p5=1e-6,
    p95=0.00125,
    p99=0.25,
)
BANDWIDTH = plain_summary(
    4.3238e9,
    metric="bandwidth",
    unit="B/s",
    better="higher",
    params={"size": 100_000_000, "rank": 1},
    n=3,
    p5=1e9,
    p95=5e9,
    p99=12.0,
    converged=False,
    complete=False,
)
BOTH = (LATENCY, BANDWIDTH)
BOUNDED = msgspec.structs.replace(BANDWIDTH, bound=4.354e9, share=0.9931)
SHAPE = Distribution(
    minimum=9e-7,
    p25=1e-6,
    p75=1.2e-6,
    maximum=0.3,
    outliers=12,
    drift=0.041,
    drifts=True,
    modes=(1e-6, 3e-6),
    tail=2.5,
)
ODD = msgspec.structs.replace(LATENCY, shape=SHAPE)
NOTES = ("one core only", "a busy | host")
HEAD = "| metric | parameters | n | median | 95% CI, this launch | p5 | p95 | p99 | converged |"
RULE = "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
EMPTY = {
    "terminal": "No values were measured.\n",
    "markdown": f"{HEAD}\n{RULE}\n",
    "csv": (
        "metric,unit,n,median,ci_low,ci_high,p5,p95,p99,converged,complete,bound,share,"
        "minimum,p25,p75,maximum,outliers,drift,drifts,modes,tail\n"
    ),
    "json": "[]\n",
}


def render(name: str, *summaries: Summary, notes: tuple[str, ...] = ()) -> str:
    text = plugins.load(Report, name).render(summaries, notes=notes)

    assert isinstance(text, str)
    assert text.endswith("\n")
    return text


def with_params(**params: str | float) -> Summary:
    return msgspec.structs.replace(LATENCY, params=params)


def test_a_row_has_a_cell_per_column_and_units_everywhere() -> None:
    table = summaries_table([LATENCY])
    assert dict(zip(table.columns, *table.rows, strict=True)) == {
        "metric": "latency",
        "parameters": "8 B",
        "n": "1000",
        "median": "1.116 µs",
        "95% CI, this launch": "1.100 µs .. 1.125 µs",
        "p5": "1.000 µs",
        "p95": "1.250 ms",
        "p99": "250.0 ms",
        "converged": "yes",
    }


def test_a_row_tells_what_is_missing(snapshot: Snapshot) -> None:
    snapshot(summaries_table([BANDWIDTH]).rows[0])


def test_a_bound_has_two_columns_where_any_summary_has_one() -> None:
    markdown = render("markdown", LATENCY, BOUNDED).splitlines()
    terminal = [line for line in render("terminal", LATENCY, BOUNDED).splitlines() if line]
    names = [name.strip() for name in HEAD.split("|")[1:-1]]

    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in markdown]
    assert cells[0] == [*names[:4], "of limit", *names[4:], "limit"]
    assert [line[4] for line in cells[2:]] == ["none", "99.3%"]
    assert [line[-2:] for line in cells[2:]] == [["yes", "none"], ["not converged", "4.354 GB/s"]]
    assert terminal[0].split()[-2:] == ["converged", "limit"]
    assert [line.split()[-2:] for line in terminal[2:]] == [["yes", "none"], ["4.354", "GB/s"]]


def test_a_bound_for_other_programs() -> None:
    [parsed] = csv.DictReader(io.StringIO(render("csv", BOUNDED)))
    [record] = json.loads(render("json", BOUNDED))

    assert [float(parsed[key]) for key in ("bound", "share")] == [4.354e9, 0.9931]
    assert [record[key] for key in ("bound", "share")] == [4.354e9, 0.9931]


def test_what_a_median_hides_is_in_a_column_of_remarks_where_there_is_any() -> None:
    markdown = render("markdown", ODD, BANDWIDTH).splitlines()
    [terminal] = [x for x in render("terminal", ODD, BANDWIDTH).splitlines() if "latency" in x]
    remarks = "drifts +4.1%, modes 1.000 µs, 3.000 µs, tail 2.5 x, outliers 12"

    assert markdown[0] == f"{HEAD} remarks |"
    assert markdown[2].endswith(f"| yes | {remarks} |")
    assert markdown[3].endswith(" |  |")
    assert terminal.endswith(f"   {remarks}")


def test_a_shape_without_news_is_no_remark() -> None:
    calm = msgspec.structs.replace(SHAPE, outliers=0, drift=-0.2, drifts=False, modes=(), tail=1.5)

    assert remarks(msgspec.structs.replace(LATENCY, shape=calm)) == ()


def test_a_shape_for_other_programs() -> None:
    [parsed] = csv.DictReader(io.StringIO(render("csv", ODD)))
    [record] = json.loads(render("json", ODD))

    assert (parsed["outliers"], parsed["drift"], parsed["drifts"]) == ("12", "0.041", "true")
    assert parsed["modes"] == "1e-06 3e-06"
    assert record["shape"] == msgspec.to_builtins(SHAPE) | {"modes": [1e-6, 3e-6]}


def test_a_sweep_is_sketched_below_the_table(snapshot: Snapshot) -> None:
    sweep = [
        msgspec.structs.replace(LATENCY, params={"size": 8 * 10**k, "rank": rank}, median=10.0**k)
        for rank in (0, 1)
        for k in range(8)
    ]
    short = render("terminal", *sweep[:3])

    snapshot(render("terminal", *sweep).splitlines()[-2:])
    assert "(log)" not in short


def test_only_a_whole_size_is_shown_as_bytes(snapshot: Snapshot) -> None:
    snapshot(summaries_table([with_params(size="all", pair="0,1", load=0.5)]).rows[0][1])


def test_markdown(snapshot: Snapshot) -> None:
    snapshot(render("markdown", *BOTH, notes=NOTES[:1]))


def test_a_pipe_in_a_cell_does_not_end_it() -> None:
    lines = render("markdown", with_params(algorithm="a|b||c")).splitlines()

    assert [line.count("|") for line in lines] == [10, 10, 10]
    assert "algorithm a&#124;b&#124;&#124;c" in lines[2]


def test_a_newline_in_a_cell_does_not_end_the_row() -> None:
    lines = render("markdown", with_params(algorithm="a\nb")).splitlines()

    assert [line.count("|") for line in lines] == [10, 10, 10]


def test_csv(snapshot: Snapshot) -> None:
    snapshot(render("csv", *BOTH, notes=NOTES))


def test_csv_parses_back_to_the_same_values() -> None:
    odd = with_params(algorithm='a,"b"\nc;|', size=8)
    rows = list(csv.DictReader(io.StringIO(render("csv", odd, BANDWIDTH))))

    assert [row["algorithm"] for row in rows] == ['a,"b"\nc;|', ""]
    assert [float(row["median"]) for row in rows] == [1.116e-6, 4.3238e9]
    assert [int(row["size"]) for row in rows] == [8, 100_000_000]
    assert [(row["ci_low"], row["rank"]) for row in rows] == [("1.1e-06", ""), ("", "1")]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((text, f"'{text}") for text in ("=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "=5")),
        *((text, f"'{text}") for text in ("\t=1", "-", "-inf", "-1.2.3")),
        ("\r=1", "' =1"),
        *((text, text) for text in ("-5", "+1.5e-3", "-.5", "ring", "a=b", " =1", "'x", "")),
        (-5, "-5"),
        (-0.5, "-0.5"),
    ],
)
def test_csv_runs_nothing_in_a_spreadsheet(text: float | str, cell: str) -> None:
    """A text that would be a formula has a quote before it; numbers stay numbers."""
    table = io.StringIO(render("csv", with_params(**{"=name": text})), newline="")
    [parsed] = csv.DictReader(table)

    assert parsed["'=name"] == cell


def test_csv_loses_no_digit() -> None:
    third = msgspec.structs.replace(LATENCY, median=1e-6 / 3)
    parsed = next(csv.DictReader(io.StringIO(render("csv", third))))

    assert float(parsed["median"]) == 1e-6 / 3


def test_json(snapshot: Snapshot) -> None:
    """It is indented for people."""
    snapshot(render("json", *BOTH, notes=NOTES))


def test_terminal(snapshot: Snapshot) -> None:
    """Words to the left, numbers to the right, a rule below the head, no spaces at the end."""
    lines = [line for line in render("terminal", *BOTH, notes=NOTES).splitlines() if line]

    snapshot(lines)


@pytest.mark.parametrize("name", ["terminal", "markdown"])
def test_what_looks_like_markup_is_text(snapshot: Snapshot, name: str) -> None:
    text = render(name, with_params(algorithm="[red]a[/] :smile:"), notes=("[bold]b",))

    snapshot(text)


@pytest.mark.parametrize("length", [10, 60, 150, 300])
def test_the_terminal_table_is_never_squeezed(length: int) -> None:
    """A table that is too wide is for the terminal to wrap, not for us to cut."""
    text = render("terminal", with_params(algorithm="x" * length))

    assert "x" * length in text
    assert "250.0 ms" in text
    assert "…" not in text


def test_the_terminal_table_does_not_depend_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = set()
    for width in ("20", "100", "300"):
        monkeypatch.setenv("COLUMNS", width)
        monkeypatch.setenv("FORCE_COLOR", width)
        texts.add(render("terminal", *BOTH))

    assert len(texts) == 1
    assert "\x1b" not in texts.pop()


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_no_summaries(name: str) -> None:
    assert render(name) == EMPTY[name]


def test_notes_are_shown_also_without_summaries(snapshot: Snapshot) -> None:
    snapshot(render("terminal", notes=NOTES[:1]))
    snapshot(render("markdown", notes=NOTES[:1]))
