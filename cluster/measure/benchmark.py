"""Benchmark, the interface of every file in `benchmarks/`."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Generic

import msgspec

from cluster.core.errors import ParseError, SpecError
from cluster.core.model.results.measurements import Definition, Measurement, Output, Planned
from cluster.core.plugins import Plugin
from cluster.core.text.options import ParamsT, encode

if TYPE_CHECKING:
    from cluster.core.model.hosts import Facts
    from cluster.fleet.simulation import FleetSimulator
    from cluster.measure.rank import Rank


class Benchmark(Plugin, Generic[ParamsT]):
    """One benchmark: its parameters, the definitions of its metrics, and what each rank does.

    The file is copied to the hosts and run there by every rank (`python3 NAME.py PARAMS`), so what
    it imports at the top must be installed on a measured host. A benchmark that outgrows one file
    is a folder: `__init__.py` holds this class, and `__main__.py` is the file that ranks run.
    """

    folder: ClassVar[str] = "cluster.benchmarks"

    starter: ClassVar[str] = "mpirun"
    """What starts its ranks, unless the user chooses: `mpirun`, or a starter that it needs."""

    needs_mpi: ClassVar[bool] = True
    """Whether its ranks find one another through MPI."""

    programs: ClassVar[tuple[str, ...]] = ()
    """Programs that its hosts need beside Python and an MPI; each is in a package of its name."""

    variables: ClassVar[Mapping[str, str]] = MappingProxyType({"OPENBLAS_NUM_THREADS": "1"})
    """Variables of its ranks' environment, unless the user sets them.

    NumPy's BLAS starts a thread for every core in every rank, which is slow where there are many,
    and fails where the number of threads is limited. No benchmark multiplies matrices with it.
    """

    launches_on_one_host: ClassVar[int] = 1
    """How often `cluster bench` launches it where all ranks are on one host, without --launches."""

    compares_hosts: ClassVar[bool] = False
    """Whether a setting that one host alone has explains its figures: settings are read again."""

    Params: type[ParamsT]
    """The parameters, each with its default; flags and checks are derived from it."""

    metrics: ClassVar[tuple[Definition, ...]]
    """The definitions of all metrics that it can measure."""

    @abstractmethod
    def measure(self, rank: Rank, params: ParamsT) -> None:
        """Measure the values; called on every rank, after MPI is initialised."""

    def check(self, params: ParamsT, ranks: int) -> None:
        """Refuse parameters that these ranks cannot run, before anything is started (SpecError)."""

    def selection(self, params: ParamsT) -> tuple[Definition, ...]:
        """Return those of `metrics` that these parameters measure; all of them by default."""
        return self.metrics

    def variants(self, params: ParamsT) -> tuple[Definition, ...]:
        """Return all definitions under which ranks may record values; by default, the selection.

        A metric has several where each host decides how it is timed.
        """
        return self.selection(params)

    def plan(self, params: ParamsT, ranks: int) -> Iterable[Planned]:
        """Return every series (metric and data point) to measure, so that a missing one is noticed.

        Empty by default: then no missing series is noticed.
        """
        return ()

    def find_metrics(self, metrics: Sequence[str]) -> tuple[Definition, ...]:
        """Return the definitions of metrics by name, in that order; repeats are allowed.

        SpecError: there is no such metric, or `metrics` is empty.
        """
        by_name = {definition.metric: definition for definition in self.metrics}
        unknown = [metric for metric in metrics if metric not in by_name]
        if unknown or not metrics:
            raise SpecError(
                f"{self.name} has no metric {unknown[0]!r}."
                if unknown
                else "There are no metrics.",
                remedy=f"There are: {', '.join(by_name)}",
            )
        return tuple(by_name[metric] for metric in dict.fromkeys(metrics))

    def memory(self, params: ParamsT, ranks: int) -> int:
        """Return the bytes that the ranks of one host allocate for messages; 0 if not known."""
        return 0

    def gpus(self, params: ParamsT, ranks_per_host: int) -> int:
        """Return how many GPUs a host needs for these parameters; none by default."""
        return 0

    def libraries(self, params: ParamsT) -> tuple[str, ...]:
        """Name the Python libraries that the ranks need besides mpi4py, msgspec and NumPy.

        As in a package index; none by default.
        """
        return ()

    def instead_of_gpus(self, params: ParamsT) -> str:
        """Say what to use without GPUs, as the end of a sentence with a flag; empty if nothing."""
        return "the processor's memory: --buffer cpu"

    def transport(self, params: ParamsT) -> str:
        """Name what carries its messages: mpi, gloo, nccl or tcp; empty if it is not known."""
        return ""

    def model(self, params: ParamsT, fleet: FleetSimulator) -> Iterable[Measurement]:
        """Return what simulated hosts would measure, in that order (SpecError: it has no model)."""
        raise SpecError(
            f"There is no model of {self.name}, so simulated hosts cannot run it.",
            remedy="What has one: cluster check NAME",
        )

    def notes(self, params: ParamsT, facts: tuple[Facts, ...]) -> tuple[str, ...]:
        """Say, in sentences, what a reader of the values must know about these hosts."""
        return ()

    def program(self, params: ParamsT) -> list[str]:
        """Return each rank's command in the job's folder; by default, Python with this file."""
        argument = msgspec.json.encode(params, enc_hook=encode).decode()
        return ["python3", "-P", f"{self.name}.py", argument]

    def parse(self, output: Output) -> tuple[Measurement, ...]:
        """Read the measurements from a job's files; by default, those that the ranks recorded."""
        return tuple(m for text in output.ranks for m in measurements(text))

    @property
    def source(self) -> Path:
        """The file that every rank runs; that of a folder is its `__main__.py`.

        SpecError: it is a folder of the user's, whose other files the hosts would not have.
        """
        path = Path(str(sys.modules[type(self).__module__].__file__))
        if path.name != "__init__.py":
            return path
        folder = Path(str(sys.modules[self.folder].__file__)).parent
        if path.parent.parent != folder:
            raise SpecError(
                f"The benchmark {self.name!r} is a folder: {path.parent}",
                means="Only one file is copied to the hosts; the folders that come with cluster "
                "are installed there.",
                remedy=f"Put it into one file: {path.parent}.py",
            )
        return path.with_name("__main__.py")


def check_pair(pair: tuple[int, int], ranks: int) -> None:
    """Refuse a pair of ranks that are the same, or do not exist (SpecError)."""
    low, high = min(pair), max(pair)
    if low == high or low < 0 or high >= ranks:
        more = f"--hosts {max(2, high + 1)}"
        if ranks < 2:  # noqa: PLR2004 - a sender and a receiver
            means, remedy = "Two ranks are needed.", f"Start more: {more}"
        elif low == high:
            means = "A rank does not send messages to itself."
            remedy = "Choose two different ranks: --pair 0,1"
        else:
            means = f"Ranks are numbered from 0; with {ranks} of them, the last is {ranks - 1}."
            remedy = f"Choose two of them, or start more: {more}"
        raise SpecError(
            f"--pair {pair[0]},{pair[1]} does not name two of the {ranks} rank(s).",
            means=means,
            remedy=remedy,
        )


def measurements(text: str) -> Iterator[Measurement]:
    """Read a measurement file (ParseError: an invalid line); an incomplete last line is ignored."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            yield msgspec.json.decode(line, type=Measurement)
        except msgspec.DecodeError as error:
            if number == len(lines) and not text.endswith("\n"):
                return
            raise ParseError(f"Line {number} is not a measurement: {error}", line=line) from error
