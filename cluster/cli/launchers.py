"""The founding comparisons: launch a cluster, measure a few conditions, plot them, clean up."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import getdoc
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec

from cluster.cli import flags, measurement
from cluster.cli.commands import down, plot, up
from cluster.cli.flags import option
from cluster.cli.repeat import LAUNCHER, BenchOptions
from cluster.core import journal
from cluster.core.errors import ClusterError, SpecError, on_failure
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.units import format_size, parse_size
from cluster.orchestration.ab_test import Trial
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.launch import plan_spec
from cluster.runs import store

BENCHMARK, METRIC = "p2p", "oneway_bandwidth"  # what the receiver sees, as in the founding program
FLOAT32 = 4  # bytes
TIMEOUT = 3600.0  # seconds: a hundred of the largest vector take minutes
LENGTHS = tuple(10**exponent for exponent in range(1, 10))  # of a vector
HowMany = Annotated[int, option("--hosts N", "How many machines.")]
Out = Annotated[Path, option("-o --output FILE", ".svg or .png")]


class Measured(Value, frozen=True, kw_only=True):
    """How much is measured, as it was typed."""

    max_bytes: Annotated[
        int, option("--max-bytes SIZE", "Size of the largest vector: 4MB, 1GB.", parser=parse_size)
    ] = format_size(FLOAT32 * LENGTHS[-1]).replace(" ", "")  # type: ignore[assignment]
    iterations: Annotated[int, option("--iterations N", "Messages of each size.")] = 100
    timeout: flags.Timeout = TIMEOUT
    runs: flags.Runs = None


class ComparedCondition(Value, frozen=True, kw_only=True):
    """One way to send the vectors."""

    verb: str
    what: str
    params: dict[str, str] = msgspec.field(default_factory=dict)
    variables: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def trial(self) -> Trial:
        return Trial(name=self.verb, params=self.params, variables=self.variables)


class ComparisonLauncher(Value, frozen=True, kw_only=True):
    """Vectors of 10 to 10^9 float32 from one rank to another, under several conditions."""

    name: str
    provider: str  # where the hosts come from, unless --provider says otherwise
    hosts: int
    ranks_per_host: int = 1
    accelerator: str  # of each host of that provider, unless an --instance is named
    conditions: tuple[ComparedCondition, ...]

    def verbs(self) -> tuple[click.Command, ...]:
        name = flags.parameter("name", flags.Name, self.name)
        yes = flags.parameter("yes", flags.Yes, False)
        measured = flags.group(Measured)
        machines = flags.ParameterGroup(
            (
                flags.with_default("provider", self.provider),
                flags.parameter("hosts", HowMany, self.hosts),
                *flags.MACHINES,
            ),
            self._machines,
        )
        create: dict[str, flags.ParameterGroup | click.Parameter] = {
            "name": name,
            "machines": machines,
        }
        plan = flags.parameter("plan", flags.PlanOnly, False)
        json = flags.parameter("json", flags.Json, False)
        region = flags.parameter("region", flags.Regions, None)
        drawn = {
            "out": flags.parameter("out", Out, Path("fig.png")),
            "root": flags.parameter("root", flags.Runs, None),
        }
        make = flags.make_command
        return (
            make(
                "create-cluster",
                partial(up.command, preparation=up.Preparation()),
                f"Create {self.hosts} node(s); on {self.provider} with {self.accelerator} each.",
                {**create, "plan": plan, "yes": yes},
            ),
            *(
                make(
                    condition.verb,
                    partial(_measure_again, condition),
                    condition.what,
                    {"name": name, "measured": measured, "json": json},
                )
                for condition in self.conditions
            ),
            make(
                "cleanup-cluster",
                lambda name, region: down.command([name], region=region),
                "Delete the cluster.",
                {"name": name, "region": region},
            ),
            make(
                "all",
                self._run_all,
                "Do all steps; delete the cluster even after an error.",
                {**create, "measured": measured, "yes": yes},
            ),
            make("plot", self._plot, "Draw bandwidth over size.", {"name": name, **drawn}),
        )

    def _machines(self, **values: Any) -> dict[str, Any]:  # noqa: ANN401 - each has its own type
        is_default = values["provider"] == self.provider and not values["instance"]
        usual = self.accelerator if is_default else None
        own = {"accelerator": values["accelerator"] or usual, "ranks_per_host": self.ranks_per_host}
        return {**values, **own}

    def _run_all(
        self, name: str, machines: dict[str, Any], measured: Measured, *, yes: bool
    ) -> None:
        spec = flags.spec(name=name, **machines)
        conditions = [condition.trial for condition in self.conditions]
        options = BenchOptions(timeout=measured.timeout)
        check_machines = measurement.check(spec, BENCHMARK, _params(measured), options, conditions)
        check_machines(plan_spec(spec)[1])
        with _cleaned_up(spec.name):
            up.command(name, machines=machines, preparation=up.Preparation(), yes=yes)
            for condition in self.conditions:
                _measure(spec, condition, measured, as_json=False)

    def _plot(self, name: str, out: Path, root: str | None) -> None:
        folders = [str(folder) for folder in self._finished_runs(store.root(root), name)]
        if not folders:
            names = " or ".join(condition.verb for condition in self.conditions)
            raise SpecError(
                f"None of the runs of {name} is of {names} and finished.",
                remedy="Measure them first; runs are listed by: cluster runs",
            )
        plot.command(folders, root=root, options=plot.PlotOptions(out=out, metric=METRIC))

    def _finished_runs(self, where: Path, name: str) -> Iterator[Path]:
        names = {condition.verb for condition in self.conditions}
        for folder in store.all_of(where, name):
            record = store.record(folder)
            if record.status == "done" and record.condition in names:
                yield folder


def _params(measured: Measured) -> dict[str, object]:
    sizes = [FLOAT32 * n for n in LENGTHS if FLOAT32 * n <= measured.max_bytes]
    return {"metrics": [METRIC], "sizes": sizes, "iterations": measured.iterations}


def _measure_again(
    condition: ComparedCondition, name: str, measured: Measured, *, json: bool
) -> None:
    _measure(attach(name).spec, condition, measured, as_json=json)


def _measure(
    spec: ClusterSpec, condition: ComparedCondition, measured: Measured, *, as_json: bool
) -> None:
    options = BenchOptions(
        runs=measured.runs,
        timeout=measured.timeout,
        keep=True,
        json=as_json,
        launches=1,
        founding=True,
    )
    measurement.measure(spec, BENCHMARK, _params(measured), options, condition.trial)


@contextmanager
def _cleaned_up(name: str) -> Iterator[None]:
    """Take a cluster down at the end; an earlier error is the one that is reported."""
    with on_failure(lambda: _down_after_failure(name)):
        yield
    down.command([name])


def _down_after_failure(name: str) -> None:
    if name not in journal.names():
        return
    try:
        down.command([name])
    except ClusterError as error:
        sys.stderr.write(f"Error: {error}\n")


def launcher(
    benchmark: str,
    params: Callable[..., Mapping[str, object]],
    *,
    name: str,
    provider: str,
    instance: str | None = None,
    launcher_values: Mapping[str, object] | None = None,
) -> click.Command:
    """Make a founding program: one benchmark, with few flags of its own, for `cluster.cli.start`.

    `name`, `provider` and `instance` count unless their flags are given; `launcher_values` are
    parameters in place of those of `params` if all ranks are on this machine.
    """

    def command(
        machines: dict[str, Any],
        chosen_params: Mapping[str, object],
        options: BenchOptions,
        **more: object,
    ) -> None:
        values: dict[str, Any] = {**machines, **more}
        chosen = flags.choose_provider(
            values.pop("provider"), run_local=values.pop("run_local"), default=provider
        )
        if chosen == "local":
            chosen_params = {**chosen_params, **(launcher_values or {})}
        if chosen == provider:
            values["instance"] = values["instance"] or instance
        options = msgspec.structs.replace(options, launches=1, founding=True)
        measurement.measure(
            flags.spec(provider=chosen, **values), benchmark, chosen_params, options
        )

    return flags.make_command(
        params.__name__,
        command,
        getdoc(params),
        {
            "name": flags.parameter("name", flags.Name, name),
            "run_local": flags.parameter("run_local", flags.RunLocal, False),
            "provider": flags.with_default("provider", None, words=provider),
            "hosts": flags.SPEC["hosts"],
            "chosen_params": flags.group(params),
            "machines": flags.ParameterGroup(flags.MACHINES),
            "options": flags.group(BenchOptions, LAUNCHER),
        },
    )
