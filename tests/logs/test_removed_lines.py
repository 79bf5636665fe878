"""Logs with lines removed: what is read of the rest is never surer than what the whole says."""

import random

import pytest

from cluster.core.errors import ParseError
from cluster.core.model.logs import Parsed
from cluster.core.model.results.measurements import Definition
from cluster.logs.reader import read
from tests.conftest import tries
from tests.logs.samples import LOGS

SAMPLES = {
    path.stem: path.read_text(errors="replace")
    for path in sorted(LOGS.glob("*.txt"))
    if not path.read_text(errors="replace").lstrip().startswith("{")  # no lines to remove
}
MOST = 200  # lines of a sample that are used
CUTS = tries(40)  # lines at which a sample is cut
UNCERTAIN = {"only_mean", "only_sent", "one_or_all", "unknown_hosts", "other_calls", "other_sum"}


def results(text: str) -> tuple[Parsed, ...]:
    try:
        return read([text.encode()]).results
    except ParseError:
        return ()


def definition_of(result: Parsed, metric: str) -> Definition:
    return next(definition for definition in result.definitions if definition.metric == metric)


def figures(text: str) -> dict[tuple[str, str, float], set[tuple[str, str]]]:
    """Return all figures: format, unit and value, with what each says that its bytes pass."""
    flows: dict[tuple[str, str, float], set[tuple[str, str]]] = {}
    for result in results(text):
        for m in result.measurements:
            definition = definition_of(result, m.metric)
            for value in m.values:
                entry = flows.setdefault((result.format, m.unit, value), set())
                entry.add((definition.flow, definition.medium))
    return flows


def parts(name: str) -> list[str]:
    """Return a sample without one of its lines, and without its beginning or its end."""
    lines = SAMPLES[name].splitlines(keepends=True)[:MOST]
    chance = random.Random(name)
    places = chance.sample(range(len(lines)), min(len(lines), CUTS))
    cuts = [*((place, place + 1) for place in places), *((0, place) for place in places)]
    cuts += [(place, len(lines)) for place in places]
    return ["".join((*lines[:start], *lines[end:])) for start, end in cuts]


@pytest.mark.parametrize("name", SAMPLES)
def test_removing_lines_never_raises_the_certainty_of_a_figure(name: str) -> None:
    """A figure of the rest is one of the whole, of the same unit, or a labelled one.

    Its bytes pass the same in as many directions as in the whole, or that is not known.
    """
    whole = figures("".join(SAMPLES[name].splitlines(keepends=True)[:MOST]))
    for text in parts(name):
        for (format_, unit, value), kinds in figures(text).items():
            expected = whole.get((format_, unit, value))
            if expected is None:
                of_format = [r for r in results(text) if r.format == format_]
                labels = {note.kind for r in of_format for note in r.notes} & UNCERTAIN
                assert labels or not all(r.whole for r in of_format), (unit, value, text)
            else:
                assert kinds <= expected | {("", "")}, (unit, value, text)
