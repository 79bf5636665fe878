"""Pictures: what can be read off them, on every axis and at the edges."""

import math
import re
from typing import Literal

import msgspec
import pytest

from cluster.analysis.models.fit import fit
from cluster.analysis.statistics.compare import Comparison, ComparisonCell
from cluster.core.errors import SpecError
from cluster.core.model.network.fleet import FleetFinding, FleetVerdict, PairTest, Part, Reason
from cluster.core.model.results.measurements import Fit, FitPoint, Piece, Summary
from cluster.reports import plots
from cluster.reports.plots.pair_maps import _lowest, _shares
from cluster.reports.plots.picture import MARKERS, differing_names, marker
from cluster.reports.tables import fits_table
from tests.plain_values import plain_summary
from tests.snapshots import Snapshot

pytestmark = pytest.mark.quick(False)  # matplotlib takes a second to import


def texts(picture: plots.Picture) -> list[str]:
    return re.findall(r">([^<>]+)</text>", picture.image.decode())


def cell(
    ratio: float | None, better: Literal["lower", "higher"] = "higher", size: int = 8
) -> ComparisonCell:
    return ComparisonCell(
        metric="m",
        params={"size": size},
        unit="s",
        better=better,
        base=1.0,
        other=ratio,
        launches=(5, 5),
        ratio=ratio,
        interval=None if ratio is None else (ratio * 0.99, ratio * 1.01),
        verdict="inconclusive" if ratio is None else "faster",
    )


def compared(*cells: ComparisonCell) -> Comparison:
    return Comparison(base="a", other="b", threshold=0.03, factors=(), cells=cells)


def summary(size: int, median: float, bound: float | None = None) -> Summary:
    return plain_summary(
        median,
        metric="bandwidth",
        unit="B/s",
        better="higher",
        params={"size": size},
        ci=(median * 0.99, median * 1.01),
        bound=bound,
        share=None if bound is None else median / bound,
    )


def curve(name: str, *medians: float, bound: float | None = None) -> plots.Curve:
    points = tuple(summary(8 << k, median, bound) for k, median in enumerate(medians))
    return plots.Curve(name=name, summaries=points)


@pytest.mark.parametrize(
    ("ratios", "labels"),
    [
        ((1 / 16, 16.0), {"1/16", "1/4", "1", "4", "16"}),
        ((0.5, 2.0), {"1/2", "1", "2"}),
        ((0.2,), {"1/4", "1/2", "1"}),
        ((1.3,), {"1", "1.1", "1.2", "1.3"}),
        ((0.98, 1.02), {"0.98", "1", "1.02"}),
        ((1000.0,), {"1", "16", "256"}),
    ],
)
def test_an_axis_of_ratios_has_labels_on_both_sides_of_1(
    ratios: tuple[float, ...], labels: set[str]
) -> None:
    plot = plots.comparison(compared(*(cell(r, size=8 << k) for k, r in enumerate(ratios))))

    assert labels <= set(texts(plot))


@pytest.mark.parametrize("high", [1.05e6, 3e6, 2e7, 9e7, 3e8, 1e12])
def test_an_axis_of_values_has_labels_however_short_it_is(high: float) -> None:
    plot = plots.sweep([curve("x", 1e6, high)])
    labels = [text for text in texts(plot) if re.fullmatch(r"[\d.]+ [kMGT]?B/s", text)]

    assert 3 <= len(set(labels)) == len(labels) <= 10, labels


def test_sizes_have_labels_where_they_were_measured() -> None:
    plot = plots.sweep([curve("x", 1e6, 2e6)])
    assert {"8 B", "16 B"} <= set(texts(plot))


def test_faster_is_drawn_to_the_right() -> None:
    """A time that is halved and a rate that is doubled are the same speed-up."""
    svg = plots.comparison(compared(cell(0.5, "lower"), cell(2.0, "higher", 16))).image.decode()
    marks = re.search(r'<g id="p-faster">.*?</g>\s*</g>', svg, re.DOTALL)

    assert marks is not None
    first, second = re.findall(r'<use [^>]*x="([\d.]+)"', marks[0])
    assert float(first) == pytest.approx(float(second))
    assert float(first) > 200, "right of the middle"


def test_no_picture_is_empty(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        plots.comparison(compared(cell(None)))
    with snapshot.raises(SpecError):
        plots.sweep([curve("x", 0.0, math.inf)])
    with snapshot.raises(SpecError):
        plots.distribution("t", "s", {"x": [math.inf]}, {})


def test_the_tail_of_a_distribution_is_cut_at_p999_with_a_mark() -> None:
    values = [1e-6 + k * 1e-10 for k in range(5000)]
    plot = plots.distribution("t", "s", {"8 B": [*values, 7e-3], "16 B": values[:100]}, {})

    labels = texts(plot)
    assert any("7.000 ms" in text for text in labels)
    assert not [text for text in labels if re.fullmatch(r"[\d.]+ ms", text)], "the axis is short"
    assert {"8 B", "16 B"} <= set(labels), "names at the ends of the curves"
    whole = texts(plots.distribution("t", "s", {"8 B": values[:100]}, {}))
    assert not [text for text in whole if "p99.9" in text]


def piece(alpha: float, worst: float) -> Piece:
    return Piece(
        first=8,
        last=1024,
        points=8,
        alpha=alpha,
        alpha_ci=None,
        beta=1e9,
        beta_ci=None,
        half=None,
        worst=worst,
    )


@pytest.mark.parametrize(
    ("alpha", "worst", "note"),
    [
        (1e-6, 0.1, ""),
        (-1e-6, 0.1, "does not fit: a negative start-up time"),
        (1e-6, 0.4, "does not fit: 40% off"),
    ],
)
def test_a_line_that_does_not_fit_is_said_and_not_drawn(
    alpha: float, worst: float, note: str
) -> None:
    points = tuple(FitPoint(size=8 << k, seconds=1e-6) for k in range(8))
    line = Fit(metric="m", params={}, points=points, pieces=(piece(alpha, worst),))
    curve = plots.Curve(name="x", summaries=(summary(8, 1e6), summary(1024, 1e8)), fit=line)
    words = texts(plots.sweep([curve]))

    assert bool([text for text in words if note and text.endswith(note)]) == bool(note)
    assert bool([text for text in words if text.endswith(" + size / (1.000 GB/s)")]) != bool(note)
    table = fits_table([line])
    assert ("remark" in table.columns) == bool(note)
    assert not note or note in table.rows[0]


def test_a_line_through_its_points_fits() -> None:
    points = [summary(8 << k, (8 << k) / (1e-6 + (8 << k) / 1e9)) for k in range(8)]
    line = fit(points)

    assert line is not None
    assert [piece.misfit for piece in line.pieces] == [""]


def test_values_beyond_their_bound_are_marked() -> None:
    assert "beyond its limit" in texts(plots.sweep([curve("x", 1e6, 2e6, bound=1.5e6)]))
    assert "beyond its limit" not in texts(plots.sweep([curve("x", 1e6, 2e6, bound=2e6)]))


def test_each_limit_is_a_line_of_its_own() -> None:
    """Runs on different networks have different limits; no line joins one limit to another."""
    slow, fast = curve("slow", 1e6, 2e6, bound=4e6), curve("fast", 1e8, 2e8, bound=4e8)
    copied = curve("again", 1e6, 2e6, bound=4.1e6)
    assert "limit" in texts(plots.sweep([slow, copied])), "a copy in memory, measured twice"
    assert dotted_lines(plots.sweep([slow, copied])) == 1
    assert dotted_lines(plots.sweep([slow, fast])) == 2


def test_a_map_of_pairs_is_ordered_by_group_and_marks_who_is_blamed(snapshot: Snapshot) -> None:
    """Host 2 is in the group of host 0, so it is drawn before host 1."""
    tests = [
        PairTest(round=1, source=a, target=b, value=4e9 if b == 1 else 1e10)
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    verdict = FleetVerdict(
        verdict="FAULTY",
        rounds=3,
        reason=Reason(code="faults"),
        reference=1e10,
        groups=(0, 1, 0, 1),
        blamed=(
            FleetFinding(
                place=Part(kind="host", host=1),
                kind="BAD",
                direction="rx",
                reason=Reason(code="slow"),
            ),
        ),
    )
    [plot] = plots.pair_map(tests, ("a", "b", "c", "d"), verdict)

    assert "12" in plot.title
    snapshot(plot.caption)
    shares = _shares(tests, [0, 2, 1, 3], verdict, 1)
    assert shares[:, 2].tolist()[:2] == [0.4, 0.4]
    assert math.isnan(shares[2, 2])
    assert _lowest(shares) == 0.4  # the end of the colours: no two shares below it look alike
    variant = msgspec.structs.replace(verdict, reference=None)
    assert plots.pair_map(tests, (), variant) == ()


def test_a_map_of_many_hosts_has_squares_of_several_each(snapshot: Snapshot) -> None:
    """10,240 hosts have 1e8 pairs, which took 12 GB; a square shows the worst of its pairs."""
    hosts = 10_240
    tests = [PairTest(round=1, source=7, target=9, value=v) for v in (1e10, 4e9)]
    verdict = FleetVerdict(verdict="HEALTHY", rounds=1, reason=Reason(code="alike"), reference=1e10)
    [plot] = plots.pair_map(tests, [str(n) for n in range(hosts)], verdict)

    snapshot(plot.caption)
    shares = _shares(tests, range(hosts), verdict, 20)
    assert shares.shape == (512, 512)
    assert shares[0, 0] == 0.4


def dotted_lines(picture: plots.Picture) -> int:
    """Count dotted lines that are not in the legend, whose sample of a line has three points."""
    paths = re.findall(r'<path d="([^"]+)"[^>]*stroke-dasharray[^>]*>', picture.image.decode())
    return sum(len(path.split()) == 6 for path in paths)


def test_a_caption_tells_values_from_launches(snapshot: Snapshot) -> None:
    single, several = curve("one", 1e6, 2e6), curve("five", 1e6, 2e6)
    several = msgspec.structs.replace(several, launches=5)

    snapshot(plots.sweep([single, several]).caption)
    snapshot(plots.sweep([single]).caption)


def test_a_legend_names_what_differs_and_conditions_have_markers_of_their_own() -> None:
    names = ["allreduce, ranks 4, x=1", "allreduce, ranks 4, x=2"]
    assert differing_names(names) == ["x=1", "x=2"]
    assert differing_names(["a, b"]) == ["a, b"]
    assert differing_names(["a, b", "a"]) == ["b", "a"]
    assert len({marker(k) for k in range(len(MARKERS))}) == len(MARKERS)
    labels = texts(plots.sweep([curve(names[0], 1e6, 2e6), curve(names[1], 2e6, 3e6)]))
    assert {"x=1", "x=2"} <= set(labels)
    assert any(text.endswith("allreduce, ranks 4") for text in labels)


def test_the_legend_is_below_the_axes() -> None:
    """In an SVG, y grows downwards: the legend's text is below the label of the x axis."""
    svg = plots.sweep([curve("named", 1e6, 2e6)]).image.decode()
    places = {
        text: float(y)
        for y, text in re.findall(r"translate\([\d.]+ ([\d.]+)\)[^>]*>([^<>]+)</text>", svg)
    } | {
        text: float(y)
        for y, text in re.findall(r'<text [^>]*\by="([\d.]+)"[^>]*>([^<>]+)</text>', svg)
    }

    [label] = [y for text, y in places.items() if text.startswith("message size")]
    assert places["named"] > label


def test_a_picture_is_also_a_pdf_and_twice_the_same() -> None:
    first, second = (plots.sweep([curve("x", 1e6, 2e6)], "pdf") for _ in range(2))

    assert first.image.startswith(b"%PDF")
    assert first.image == second.image
    assert set(first._repr_mimebundle_()) == {"text/plain", "application/pdf"}
    assert repr(first).startswith("<Picture ")
