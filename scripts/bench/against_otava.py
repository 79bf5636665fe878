"""The change points of `cluster watch` beside those of Apache Otava, on the same series.

Otava pins the version of NumPy, so it lives in an environment of its own, which can be thrown away:

    python3 -m venv build/otava
    build/otava/bin/pip install apache-otava==0.8.0

OTAVA names another folder. The tigerbeetle series is that of Otava's own tests (Nyrkio;
apache/otava, tests/tigerbeetle_test.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stopwatch import ROOT
from watched import CASES, SEEDS, middle_step_series, share, stationary, step_series

from cluster.analysis.statistics.change_points import SMALLEST, look
from tests.analysis.random_series import KINDS, LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    Series = list[list[float]]
    Places = list[list[int]]

PLACE = Path(os.environ.get("OTAVA", ROOT / "build/otava"))
SERIES = ROOT / "tests/analysis/tigerbeetle.txt"
LEVEL = 0.001  # the p-value: Otava's own default
WINDOW = 30  # values that Otava looks at together, in its test of the tigerbeetle series
NEAR = 1  # points by which two places of one change may differ
FAR = 3  # points from a step, beyond which a change is another one
ASK = """
import json, sys
from otava.analysis import compute_change_points
from otava.series import AnalysisOptions
request = json.load(sys.stdin)
usual = AnalysisOptions()  # what the command of Otava uses unless it is told otherwise
json.dump([
    [int(point.index) for point in compute_change_points(
        series, window_len=request["window"] or usual.window_len, max_pvalue=request["level"],
        min_magnitude=request["smallest"])[0]]
    for series in request["series"]
], sys.stdout)
"""


class _Alarms(NamedTuple):
    """The places of change points in some series."""

    own_points: Places
    any_size: Places  # by Otava
    our_size: Places  # by Otava, of our least size


def against_otava(repetitions: int) -> None:
    """Compare false alarms, steps and the tigerbeetle series; skip without the environment."""
    if not (PLACE / "bin/python").exists():
        sys.stdout.write(f"skip  against Otava: no {PLACE}; {Path(__file__).name} says how\n")
        return
    seeds = SEEDS[:repetitions]
    columns = ("cluster", f"Otava, p < {LEVEL:g}", f"and {SMALLEST:.0%} or more")
    sys.stdout.write(f"seeds {seeds}\n")
    _row("stationary, any change, one look", columns)
    total = _Alarms([], [], [])
    for number, kind in enumerate(KINDS):
        alarms = _alarms([values.tolist() for values in stationary(number, seeds)])
        _row(f"{len(alarms.own_points)} of {kind.__name__}", _shares(alarms, 0, LENGTH))
        total = _Alarms(*([*sums, *runs] for sums, runs in zip(total, alarms, strict=True)))
    _row(f"all {len(total.own_points)}", _shares(total, 0, LENGTH))
    _row(f"a change within {FAR} of the step, one look", columns)
    for number, step in enumerate(CASES):
        alarms = _alarms([values.tolist() for values in step_series(number, step, seeds)])
        _row(step.name, _shares(alarms, LENGTH - step.after - FAR, LENGTH))
    alarms = _alarms([values.tolist() for values in middle_step_series(seeds)])
    middle = LENGTH // 2
    for far in (NEAR, FAR):
        name = f"3 deviations at run {middle}, within {far}"
        _row(name, _shares(alarms, middle - far, middle + far + 1))
    shares = [
        share([any(abs(i - middle) > FAR for i in runs) for runs in places]) for places in alarms
    ]
    _row(f"  and another, more than {FAR} away", shares)
    _tigerbeetle()


def _alarms(series: Series) -> _Alarms:
    own_points = [[point.at for point in look(values).changes] for values in series]
    return _Alarms(own_points, _otava_places(series), _otava_places(series, smallest=SMALLEST))


def _otava_places(series: Series, *, smallest: float = 0.0, window: int = 0) -> Places:
    """Ask Otava, in its own environment; its usual window is 50 values."""
    request = {"series": series, "level": LEVEL, "smallest": smallest, "window": window}
    text = json.dumps(request)
    argv = [str(PLACE / "bin/python"), "-c", ASK]
    result = subprocess.run(argv, input=text, capture_output=True, text=True, check=True)
    places: Places = json.loads(result.stdout)
    return places


def _shares(alarms: _Alarms, first: int, end: int) -> list[str]:
    """Return the shares of series with a change at one of some places."""
    return [share([any(first <= i < end for i in runs) for runs in places]) for places in alarms]


def _tigerbeetle() -> None:
    """Print which changes of Otava's series are ours, too."""
    series = [float(value) for value in SERIES.read_text().split()]
    (otava_points,), own_points = _otava_places([series], window=WINDOW), look(series).changes
    (large,) = _otava_places([series], window=WINDOW, smallest=SMALLEST)
    otava = (f"Otava, window {WINDOW}", f"Otava, {SMALLEST:.0%} or more")
    headers = ("cluster, at the end", "cluster, first seen with")
    _row(f"tigerbeetle, {len(series)} runs", (*otava, *headers))
    for index in sorted({*otava_points, *(point.at for point in own_points)}):
        changes = [f"{point.change:+.1%}" for point in own_points if abs(point.at - index) <= NEAR]
        looks = (  # after each run until a change is found there, as `cluster watch` looks
            f"run {newest}"
            for newest in range(index, len(series))
            if any(abs(point.at - index) <= NEAR for point in look(series[: newest + 1]).changes)
        )
        answers = ["yes" if index in points else "no" for points in (otava_points, large)]
        _row(f"change at {index}", (*answers, next(iter(changes), "no"), next(looks, "never")))


def _row(name: str, cells: Sequence[str]) -> None:
    sys.stdout.write(f"{name:43}" + "".join(f"{cell:28}" for cell in cells).rstrip() + "\n")
    sys.stdout.flush()
