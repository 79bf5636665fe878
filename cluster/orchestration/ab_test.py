"""A/B tests: launches of two conditions in turn, so that drift affects both alike.

They go A B B A A B B A ...: of any two neighbours each condition comes first as often as second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.analysis.compare import ENOUGH_LAUNCHES, THRESHOLD, Launch, Side, compare
from cluster.analysis.factors import MCA
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.measure.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cluster.analysis.compare import Comparison
    from cluster.runs.run import Run

NAME = re.compile(r"[A-Za-z_]\w*")
SECRET = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|PRIVATE|(^|_)KEY", re.IGNORECASE)
FORM = "KEY=V1,V2, where KEY is a parameter of the benchmark, mca:NAME or env:NAME"


class Trial(Value, frozen=True, kw_only=True):
    """One condition of an experiment.

    Args:
        name: to compare by; `KEY=VALUE`, as it was asked for, of an A against B.
        params: of the benchmark, that it sets.
        variables: of every rank's environment, that it sets.

    """

    name: str
    params: dict[str, str]
    variables: dict[str, str]


PLAIN = Trial(name="", params={}, variables={})  # of no experiment


def trials(text: str, benchmark: str) -> tuple[Trial, Trial]:
    """Parse the two conditions of an A/B test.

    Args:
        text: `KEY=V1,V2`; `KEY=V1|V2` if a value has a comma.
        benchmark: whose parameter KEY may be.

    Returns:
        The two.

    Raises:
        SpecError: it is not of this form, or there is no such key.

    """
    key, equals, values = text.partition("=")
    parts = values.split("|" if "|" in values else ",")
    if not equals or len(parts) != 2 or parts[0] == parts[1]:  # noqa: PLR2004 - A and B
        raise SpecError(
            f"--ab {text!r} is not {FORM}.",
            means="The values differ; there is one comma between them, or a | if they have commas.",
            remedy="Such as --ab mca:btl_tcp_links=1,4",
        )
    first, second = (_trial(key, value, benchmark) for value in parts)
    return first, second


def _trial(key: str, value: str, benchmark: str) -> Trial:
    kind, colon, name = key.partition(":")
    if colon and kind in ("mca", "env"):
        told = dict([variable(kind, name, value)])
        return Trial(name=f"{key}={value}", params={}, variables=told)
    valid = plugins.find(Benchmark, benchmark).Params.__struct_fields__
    field = key.replace("-", "_")
    if field not in valid:
        raise SpecError(
            f"There is no parameter {key!r} of {benchmark}.",
            means=f"An experiment is {FORM}.",
            remedy=f"There are: {', '.join(valid)}",
        )
    return Trial(name=f"{key}={value}", params={field: value}, variables={})


def variable(kind: str, name: str, value: str) -> tuple[str, str]:
    """Name an environment variable, or an MCA parameter of Open MPI as one.

    Args:
        kind: `mca` or `env`.
        name: of it.
        value: that it gets.

    Returns:
        The variable's name, and its value.

    Raises:
        SpecError: it cannot be one, or looks like a secret.

    """
    if NAME.fullmatch(name) is None:
        raise SpecError(f"{name!r} cannot be the name of a variable.")
    if SECRET.search(name):
        raise SpecError(
            f"{name} looks like a secret, and would be kept in the run's folder.",
            remedy="Put it into the host's own environment.",
        )
    return (MCA if kind == "mca" else "") + name, value


def order(launches: int) -> Iterator[int]:
    """Give the order of two conditions: ABBA, again and again.

    Args:
        launches: of each.

    Yields:
        0 for the first condition, 1 for the second.

    """
    for pair in range(launches):
        yield from (1, 0) if pair % 2 else (0, 1)


def check_launches(launches: int) -> None:
    """Refuse a number of launches that is too small for a verdict.

    Args:
        launches: of each condition.

    Raises:
        SpecError: there are too few.

    """
    if launches < ENOUGH_LAUNCHES:
        raise SpecError(
            f"--launches is {launches}; a verdict needs {ENOUGH_LAUNCHES} of each condition.",
            means="A launch is what is repeated: values of one launch say little of the next.",
        )


def run_alternating(
    bench: Callable[..., Run],
    benchmark: str,
    pair: tuple[Trial, Trial],
    *,
    launches: int = ENOUGH_LAUNCHES,
    variables: Mapping[str, str] | None = None,
    **params: object,
) -> Iterator[tuple[Trial, Run]]:
    """Run a benchmark under two conditions in turn.

    Args:
        bench: that runs it once: `Cluster.bench`, or something around it.
        benchmark: its name.
        pair: the two conditions.
        launches: of each.
        variables: of every rank's environment, under both.
        params: of the benchmark, under both.

    Yields:
        Each launch's condition and run, once it is home.

    Raises:
        SpecError: there are too few launches.
        JobError: a launch failed.

    """
    check_launches(launches)
    for which in order(launches):
        trial = pair[which]
        told = {**(variables or {}), **trial.variables}
        own = {**params, **trial.params}
        yield trial, bench(benchmark, variables=told, condition=trial.name, **own)


def compare_conditions(
    pair: tuple[Trial, Trial], ran: Iterable[tuple[Trial, Run]], threshold: float = THRESHOLD
) -> Comparison:
    """Compare the runs of two conditions.

    Args:
        pair: the two conditions.
        ran: each launch's condition and run.
        threshold: a part of a value that matters.

    Returns:
        What differs, and a verdict per cell on the second condition.

    """
    known = list(ran)
    groups = (
        Side(
            name=trial.name,
            launches=tuple(
                Launch(record=run.record, summaries=run.summary())
                for own, run in known
                if own is trial
            ),
        )
        for trial in pair
    )
    base, other = groups
    return compare(base, other, threshold)
