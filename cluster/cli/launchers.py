"""The founding comparisons: launch a cluster, measure a few conditions, plot them, clean up."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec

from cluster.cli import flags, measurement
from cluster.cli.commands import down, plot, up
from cluster.cli.flags import option
from cluster.cli.measurement import BenchOptions, Request
from cluster.core.errors import ClusterError, SpecError, on_failure
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.text.units import format_size, parse_size
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
        workload = flags.group(Measured)
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
        plot_flags = {
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
                    partial(_measure, condition),
                    condition.what,
                    {"name": name, "workload": workload, "json": json},
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
                {**create, "workload": workload, "yes": yes},
            ),
            make("plot", self._plot, "Draw bandwidth over size.", {"name": name, **plot_flags}),
        )

    def _machines(self, **values: Any) -> dict[str, Any]:  # noqa: ANN401 - each has its own type
        is_default = values["provider"] == self.provider and not values["instance"]
        usual = self.accelerator if is_default else None
        accelerator = values["accelerator"] or usual
        return {**values, "accelerator": accelerator, "ranks_per_host": self.ranks_per_host}

    def _run_all(
        self, name: str, machines: dict[str, Any], workload: Measured, *, yes: bool
    ) -> None:
        spec = flags.spec(name=name, **machines)
        conditions = [condition.trial for condition in self.conditions]
        options = BenchOptions(timeout=workload.timeout)
        check_machines = measurement.check(
            spec, Request(BENCHMARK, _params(workload), options), conditions
        )
        check_machines(plan_spec(spec)[1])
        # A cluster is taken down at the end; an earlier error is the one that is reported.
        with on_failure(lambda: _down_after_failure(spec.name)):
            up.command(name, machines=machines, preparation=up.Preparation(), yes=yes)
            for condition in self.conditions:
                _measure(condition, spec.name, workload, json=False)
        down.command([spec.name])

    def _plot(self, name: str, out: Path, root: str | None) -> None:
        names = [condition.verb for condition in self.conditions]
        folders = []
        for folder in store.all_of(store.root(root), name):
            record = store.record(folder)
            if record.status == "done" and record.condition in names:
                folders.append(str(folder))
        if not folders:
            raise SpecError(
                f"None of the runs of {name} is of {' or '.join(names)} and finished.",
                remedy="Measure them first; runs are listed by: cluster runs",
            )
        plot.command(folders, root=root, options=plot.PlotOptions(out=out, metric=METRIC))


def _params(workload: Measured) -> dict[str, object]:
    sizes = [FLOAT32 * n for n in LENGTHS if FLOAT32 * n <= workload.max_bytes]
    return {"metrics": [METRIC], "sizes": sizes, "iterations": workload.iterations}


def _measure(condition: ComparedCondition, name: str, workload: Measured, *, json: bool) -> None:
    options = BenchOptions(
        runs=workload.runs,
        timeout=workload.timeout,
        keep=True,
        json=json,
        launches=1,
        founding=True,
    )
    bench = Request(BENCHMARK, _params(workload), options)
    measurement.measure(attach(name).spec, bench, condition.trial)


def _down_after_failure(name: str) -> None:
    if not journal.exists(name):
        return
    try:
        down.command([name])
    except ClusterError as error:
        sys.stderr.write(f"Error: {error}\n")
