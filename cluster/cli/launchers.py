"""The founding comparisons: launch a cluster, measure a few conditions, plot them, and clean up.

Each is a launcher with the verbs create-cluster, one for each condition, cleanup-cluster, all and
plot.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from cluster.cli import flags, measurement
from cluster.cli.commands import down, plot, up
from cluster.cli.commands.bench import RUN_FLAGS, chosen_provider
from cluster.cli.repeat import BenchOptions
from cluster.core import journal
from cluster.core.cleanup import on_failure
from cluster.core.errors import ClusterError, SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.units import format_size, parse_size
from cluster.orchestration.ab_test import Trial
from cluster.orchestration.cluster import attach
from cluster.runs import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BENCHMARK, METRIC = "p2p", "oneway_bandwidth"  # what the receiver sees, as in the founding program
FLOAT32 = 4  # bytes
TIMEOUT = 3600.0  # seconds: a hundred of the largest vector take minutes
LENGTHS = tuple(10**exponent for exponent in range(1, 10))  # of a vector
HowMany = Annotated[int, typer.Option("--hosts", metavar="N", help="How many machines.")]
Out = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help=".svg or .png")]

MEASURE_FLAGS: flags.Declared = {
    "max_bytes": (
        Annotated[
            int,
            typer.Option(
                "--max-bytes",
                metavar="SIZE",
                parser=parse_size,
                help="Size of the largest vector: 4MB, 1GB.",
            ),
        ],
        format_size(FLOAT32 * LENGTHS[-1]).replace(" ", ""),
    ),
    "iterations": (
        Annotated[int, typer.Option("--iterations", metavar="N", help="Messages of each size.")],
        100,
    ),
    "timeout": (flags.Timeout, TIMEOUT),
    "runs": (flags.Runs, None),
}


class ComparedCondition(Value, frozen=True, kw_only=True):
    """One way to send the vectors."""

    verb: str
    what: str
    params: dict[str, str] = msgspec.field(default_factory=dict)
    variables: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def trial(self) -> Trial:
        """The condition as an argument of a launch."""
        return Trial(name=self.verb, params=self.params, variables=self.variables)


class ComparisonLauncher(Value, frozen=True, kw_only=True):
    """Vectors of 10 to 10^9 float32 from one rank to another, under several conditions.

    Args:
        provider: where the hosts come from, unless --provider says otherwise.
        accelerator: of each host of that provider, unless an --instance is named.

    """

    name: str
    provider: str
    hosts: int
    ranks_per_host: int = 1
    accelerator: str
    conditions: tuple[ComparedCondition, ...]

    def verbs(self) -> tuple[Callable[..., None], ...]:
        """Return the verbs, as `cluster.cli.start` runs them."""
        return (
            self._create(),
            *(self._verb(condition) for condition in self.conditions),
            self._cleanup(),
            self._all(),
            self._plot(),
        )

    @property
    def _name(self) -> flags.Declared:
        return {"name": (flags.Name, self.name)}

    @property
    def _machines(self) -> flags.Declared:
        first: flags.Declared = {
            "provider": flags.with_default("provider", self.provider),
            "hosts": (HowMany, self.hosts),
        }
        return {**self._name, **first, **flags.MACHINES}

    def _with_defaults(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the flags of the machines, with the defaults of this comparison."""
        is_default = values["provider"] == self.provider and not values["instance"]
        usual = self.accelerator if is_default else None
        own = {"accelerator": values["accelerator"] or usual, "ranks_per_host": self.ranks_per_host}
        return {**values, **own}

    def _create(self) -> Callable[..., None]:
        def command(**values: Any) -> None:  # noqa: ANN401 - each flag has its own type
            up.command(**self._with_defaults(values))

        what = f"Create {self.hosts} node(s); on {self.provider} with {self.accelerator} each."
        declared: flags.Declared = {
            **self._machines,
            "plan": (flags.PlanOnly, False),
            "yes": (flags.Yes, False),
        }
        return _verb("create-cluster", what, command, declared)

    def _verb(self, condition: ComparedCondition) -> Callable[..., None]:
        def command(name: str, json: bool, **values: Any) -> None:  # noqa: ANN401, FBT001
            _measure(attach(name).spec, condition, values, as_json=json)

        declared: flags.Declared = {**self._name, **MEASURE_FLAGS, "json": (flags.Json, False)}
        return _verb(condition.verb, condition.what, command, declared)

    def _cleanup(self) -> Callable[..., None]:
        def command(name: str, region: list[str] | None) -> None:
            down.command([name], region=region)

        declared: flags.Declared = {**self._name, "region": (flags.Regions, None)}
        return _verb("cleanup-cluster", "Delete the cluster.", command, declared)

    def _all(self) -> Callable[..., None]:
        def command(*, yes: bool, **values: Any) -> None:  # noqa: ANN401
            measuring = {key: values.pop(key) for key in MEASURE_FLAGS}
            machines = self._with_defaults(values)
            spec = flags.spec(**machines)
            conditions = [condition.trial for condition in self.conditions]
            options = BenchOptions(timeout=measuring["timeout"])
            measurement.check(spec, BENCHMARK, _params(measuring), options, conditions)
            with _cleaned_up(spec.name):
                up.command(**machines, yes=yes)
                for condition in self.conditions:
                    _measure(spec, condition, measuring, as_json=False)

        what = "Do all steps; delete the cluster even after an error."
        declared = {**self._machines, **MEASURE_FLAGS, "yes": (flags.Yes, False)}
        return _verb("all", what, command, declared)

    def _plot(self) -> Callable[..., None]:
        def command(name: str, out: Path, root: str | None) -> None:
            found = [str(folder) for folder in self._done(store.root(root), name)]
            if not found:
                names = " or ".join(condition.verb for condition in self.conditions)
                raise SpecError(
                    f"None of the runs of {name} is of {names} and finished.",
                    remedy="Measure them first; runs are listed by: cluster runs",
                )
            plot.command(found, out, "sweep", METRIC, root=root)

        declared: flags.Declared = {**self._name, "out": (Out, Path("fig.png"))}
        what = "Draw bandwidth over size."
        return _verb("plot", what, command, {**declared, "root": (flags.Runs, None)})

    def _done(self, where: Path, name: str) -> Iterator[Path]:
        """Find the finished runs of the conditions."""
        names = {condition.verb for condition in self.conditions}
        for folder in store.all_of(where, name):
            record = store.record(folder)
            if record.status == "done" and record.condition in names:
                yield folder


def _verb(
    name: str, what: str, command: Callable[..., None], declared: flags.Declared
) -> Callable[..., None]:
    made = flags.with_flags(command, flags.parameters(declared))
    made.__name__, made.__doc__ = name, what
    return made


def _params(measuring: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters of the benchmark."""
    sizes = [FLOAT32 * n for n in LENGTHS if FLOAT32 * n <= measuring["max_bytes"]]
    return {"metrics": [METRIC], "sizes": sizes, "iterations": measuring["iterations"]}


def _measure(
    spec: ClusterSpec, condition: ComparedCondition, measuring: Mapping[str, Any], *, as_json: bool
) -> None:
    options = BenchOptions(
        runs=measuring["runs"],
        timeout=measuring["timeout"],
        keep=True,
        json=as_json,
        launches=1,
        founding=True,
    )
    measurement.measure(spec, BENCHMARK, _params(measuring), options, condition.trial)


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
    here: Mapping[str, object] | None = None,
) -> Callable[..., None]:
    """Make a founding program: one benchmark, with few flags of its own.

    Args:
        name: of the cluster, unless --name is given.
        provider: of the machines, unless --provider or --run-local is given.
        instance: the type of that provider's machines, unless --instance is given.
        here: parameters if all ranks are on this machine, in place of those of `params`.

    Returns:
        A function for `cluster.cli.start`.

    """
    own = inspect.signature(params).parameters

    def command(**values: Any) -> None:  # noqa: ANN401 - each flag has its own type
        given = params(**{key: values.pop(key) for key in own})
        around = {key: values.pop(key) for key in RUN_FLAGS}
        options = BenchOptions(**around, launches=1, founding=True)
        chosen = chosen_provider(values, provider)
        if chosen == "local":
            given = {**given, **(here or {})}
        if chosen == provider:
            values["instance"] = values["instance"] or instance
        measurement.measure(flags.spec(provider=chosen, **values), benchmark, given, options)

    first: flags.Declared = {
        "name": (flags.Name, name),
        "run_local": (flags.RunLocal, False),
        "provider": flags.with_default("provider", None, shown=provider),
        "hosts": flags.SPEC["hosts"],
    }
    last = flags.parameters({**flags.MACHINES, **RUN_FLAGS})
    made = flags.with_flags(command, [*flags.parameters(first), *own.values(), *last])
    made.__name__, made.__doc__ = params.__name__, params.__doc__
    return made
