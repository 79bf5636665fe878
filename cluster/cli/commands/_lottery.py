"""`cluster bench --lottery K`: draw machines K times, and tell what the luck of a draw is worth."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from cluster.cli.confirm import confirm_cost
from cluster.cli.console import console
from cluster.cli.measurement import check
from cluster.cli.progress.hosts import HostProgress
from cluster.cli.progress.jobs import JobProgress
from cluster.cli.repeat import BenchOptions, launch_once
from cluster.cli.show import (
    print_json,
    print_lines,
    receipt_lines,
    relative_path,
    show_plan,
    show_tables,
)
from cluster.core import journal, plugins
from cluster.core.errors import SpecError
from cluster.core.model.lottery import DrawCost, DrawnSeries
from cluster.core.model.value import Value
from cluster.orchestration.ab_test import PLAIN, Trial
from cluster.orchestration.launch.launch import launch_spec, plan_spec
from cluster.providers import ExistingHosts, Provider, Simulates
from cluster.runs.store import make_root
from cluster.runs.store import root as runs_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cluster.core.model.resources import Plan
    from cluster.core.model.spec import ClusterSpec
    from cluster.runs.run import Run

JOBS = 3  # on the machines of each draw
FEWEST = 2  # draws, and jobs of each


class Draw(Value, frozen=True, kw_only=True):
    """One launch of machines, which are gone again."""

    runs: tuple[str, ...]
    cost: DrawCost


class LotteryAnswer(Value, frozen=True, kw_only=True):
    """What `--lottery K --json` prints."""

    draws: tuple[Draw, ...]  # in their order
    series: tuple[DrawnSeries, ...]  # that every draw has
    answer: str  # in one line


def draw_lottery(
    spec: ClusterSpec, benchmark: str, params: Mapping[str, object], options: BenchOptions
) -> None:
    """Launch machines several times, benchmark and end them; show draws also if one fails."""
    draws = options.lottery or 0
    _check(spec, options, draws)
    check_machines = check(spec, benchmark, params, options, (PLAIN,))
    plan = plan_spec(spec)[1]
    check_machines(plan)
    if options.plan:
        show_plan(plan, as_json=options.json)
        return
    make_root(runs_root(options.runs))
    screen = console(stderr=options.json)
    _confirm(spec, plan, options, draws)
    drawn: list[tuple[Draw, list[Run]]] = []
    try:
        for number in range(1, draws + 1):
            screen.print(f"Draw {number} of {draws}", soft_wrap=True)
            drawn.append(_draw(spec, benchmark, params, options, number))
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the ranks are stopped, and the machines are ended.\n")
        raise
    finally:
        if len(drawn) >= FEWEST:
            _show(drawn, as_json=options.json)


def _check(spec: ClusterSpec, options: BenchOptions, draws: int) -> None:
    """Refuse what is no lottery, before anything is launched."""
    if min(draws, options.launches or JOBS) < FEWEST:
        raise SpecError(
            "A lottery needs two launches of machines or more, and two jobs on each.",
            means="With fewer, nothing shows how much machines differ, and how much jobs do.",
            remedy=f"Such as: --lottery 5 --launches {JOBS}",
        )
    refused = {
        "--keep": options.keep,
        "--detach": options.detach,
        "--ab": options.ab,
        "--order near": options.order != "given",
        "--fail-on, --junit and --github": options.gates.has_any,
    }
    for flag, is_given in refused.items():
        if is_given:
            raise SpecError(f"--lottery and {flag} contradict each other.", remedy="Leave one out.")
    provider = plugins.find(Provider, spec.provider)
    if issubclass(provider, Simulates | ExistingHosts):
        raise SpecError(
            f"--lottery has no effect with the provider {spec.provider!r}.",
            means="It gives the same hosts each time, so that there is nothing to draw.",
            remedy="Choose a provider that creates machines, such as --provider aws.",
        )
    if spec.name in journal.names():
        raise SpecError(
            f"The cluster {spec.name} runs, and a lottery ends its machines after each draw.",
            remedy=f"Choose another --name, or end it first: cluster down {spec.name}",
        )


def _confirm(spec: ClusterSpec, plan: Plan, options: BenchOptions, draws: int) -> None:
    screen = console(stderr=options.json)

    def show(line: str) -> None:
        screen.print(line, soft_wrap=True)

    confirm_cost(spec, plan, show, yes=options.yes, launches=draws)


def _draw(
    spec: ClusterSpec,
    benchmark: str,
    params: Mapping[str, object],
    options: BenchOptions,
    number: int,
) -> tuple[Draw, list[Run]]:
    """Launch the machines, run the jobs, and take the machines down, whatever happens."""
    start, jobs = time.time(), options.launches or JOBS
    trial = Trial(name=f"draw {number}", params={}, variables={})
    screen = console(stderr=options.json)
    with HostProgress(screen) as waiting:
        cluster = launch_spec(spec, waiting)
    try:
        with JobProgress(stderr=options.json, launches=jobs) as live:
            ran = [
                launch_once(cluster, benchmark, params, options, trial, live, f"{start:.3f}")
                for _ in range(jobs)
            ]
    finally:
        cluster.down()
        for line in receipt_lines(cluster):
            screen.print(line, soft_wrap=True)
    receipt = cluster.receipt()
    cost = DrawCost(
        seconds=receipt.seconds if receipt else time.time() - start,
        dollars=receipt.dollars if receipt else None,
    )
    return Draw(runs=tuple(str(run.folder) for run in ran), cost=cost), ran


def _show(drawn: Sequence[tuple[Draw, list[Run]]], *, as_json: bool) -> None:
    from cluster.analysis.statistics.lottery import drawn_series  # noqa: PLC0415 - slow: numpy
    from cluster.reports.lottery_table import lottery_answer, lottery_table  # noqa: PLC0415

    draws = tuple(draw for draw, _ in drawn)
    series = drawn_series(
        [[run.summary() for run in ran] for _, ran in drawn], [draw.cost for draw in draws]
    )
    paid = [draw.cost.dollars for draw in draws if draw.cost.dollars is not None]
    answer = lottery_answer(
        series, [len(draw.runs) for draw in draws], sum(paid) if len(paid) == len(draws) else None
    )
    if as_json:
        print_json(LotteryAnswer(draws=draws, series=series, answer=answer))
        return
    show_tables([lottery_table(series, len(draws))], "terminal")
    for number, (_, ran) in enumerate(drawn, 1):
        print_lines(f"Draw {number}: {relative_path(ran[-1].folder)} is its newest run")
    print_lines(answer)
