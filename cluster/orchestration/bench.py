"""`c.bench("p2p", sizes=[8])`, and with types for editors: `c.bench.p2p(sizes=[8])`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from cluster.core import plugins
from cluster.core.model.records import Condition
from cluster.core.model.value import Value
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.host_order import HostOrder
from cluster.orchestration.listener import Listener
from cluster.orchestration.prepare import make_condition
from cluster.orchestration.variables import all_variables
from cluster.orchestration.working_folder import WorkingFolder

if TYPE_CHECKING:
    from cluster.runs.run import Run

Names = str | Sequence[str]
Sizes = str | int | Iterable[int | str]
Pair = str | tuple[int, int]
Kernel = Literal["auto", "c", "python"]
TIMEOUT = 600.0  # seconds that a job may take by default


class RunArgs(TypedDict, total=False):
    """Options of every benchmark, besides its own parameters; see `Bench.__call__`."""

    runs: str | Path | None
    timeout: float
    detach: bool
    listener: Listener | None
    mca: Mapping[str, object] | None
    env: Mapping[str, object] | None
    variables: Mapping[str, str] | None
    condition: str
    profile: str | None
    describe: str
    expect: str
    workdir: str | Path | WorkingFolder | None
    launch_of: str
    order: HostOrder
    starter: str


class RunOptions(Value, frozen=True, kw_only=True):
    """How a benchmark runs, and under which condition; see `Bench.__call__`."""

    about: Condition
    runs: str | Path | None
    timeout: float
    detach: bool
    listener: Listener | None
    profile: str | None
    workdir: str | Path | WorkingFolder | None
    order: HostOrder
    starter: str


class RepeatedArgs(RunArgs, total=False):
    """How often a benchmark repeats each measurement; see `cluster bench p2p --help`."""

    iterations: int | None
    warm_up: int | None
    until_precise: bool
    max_iterations: int | None


class P2PArgs(RepeatedArgs, total=False):
    """The parameters of `p2p`."""

    metrics: Names
    sizes: Sizes
    window: int | None
    pair: Pair
    kernel: Kernel
    buffer: Literal["cpu", "cuda"]


class CollectivesArgs(RepeatedArgs, total=False):
    """The parameters of `collectives`."""

    operations: Names
    sizes: Sizes
    transport: Literal["mpi", "gloo", "nccl", "nccl4py"]
    kernel: Kernel


class IperfArgs(RunArgs, total=False):
    """The parameters of `iperf`."""

    metrics: Names
    streams: str | int | Sequence[int]
    iterations: int
    seconds: int
    omit: int
    pair: Pair


class PairsArgs(RunArgs, total=False):
    """The parameters of `pairs`."""

    metric: Literal["bandwidth", "latency"]
    rounds: int
    groups: str | int | Sequence[int]
    alone: int
    confirm: bool
    pairs: Names
    milliseconds: int
    allreduce: int


class WithinArgs(RunArgs, total=False):
    """The parameters of `within`."""

    devices: Literal["auto", "gpus", "numa", "cores"]
    size: int
    iterations: int


class ProgramArgs(RunArgs, total=False):
    """The parameters of `program`."""

    command: str | Sequence[str]


class TrainingArgs(RunArgs, total=False):
    """The parameters of `training`."""

    source: str
    folder: str
    samples: int
    shard: int
    batch: int
    width: int
    workers: int
    rounds: int
    steps: int
    warm_up: int
    seed: int
    target: float
    seeds: int
    epochs: int
    device: Literal["cpu", "cuda"]


class GpuArgs(RunArgs, total=False):
    """The parameters of `gpu`."""

    sizes: Sizes
    iterations: int
    kernels: int


class Bench:
    """Runs benchmarks by name, as on the command line, or by typed methods.

    `c.bench("p2p", sizes=[8, "16KiB"])` is checked when it is called; in
    `c.bench.p2p(sizes=[8, "16KiB"])` a wrong parameter is also an error in the editor. A benchmark
    of your own is a method, too: `c.bench.mine(...)`.

    If a parameter is wrong, `SpecError` is raised before anything starts; if the job fails,
    `JobError`: the run's folder says why, and keeps the values.

    Args:
        run: Runs a benchmark, given its name, the options and its parameters.

    """

    def __init__(self, run: Callable[[str, RunOptions, Mapping[str, object]], Run]) -> None:
        """Keep the function that runs benchmarks."""
        self._run = run

    def __call__(  # noqa: PLR0913 - each is an option of its own
        self,
        benchmark: str,
        *,
        runs: str | Path | None = None,
        timeout: float = TIMEOUT,
        detach: bool = False,
        listener: Listener | None = None,
        mca: Mapping[str, object] | None = None,
        env: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        condition: str = "",
        profile: str | None = None,
        describe: str = "",
        expect: str = "",
        workdir: str | Path | WorkingFolder | None = None,
        launch_of: str = "",
        order: HostOrder = "given",
        starter: str = "",
        **params: object,
    ) -> Run:
        """Run a benchmark and download its results.

        Args:
            benchmark: its name, such as `p2p`.
            runs: the folder of all runs; `CLUSTER_RUNS` or `runs` if not given.
            timeout: seconds that the job may take.
            detach: return as soon as the job runs; continue with `wait` and `fetch`.
            listener: called with the progress of the job; a notebook shows a bar by default.
            mca: parameters of Open MPI for all ranks, such as `{"btl_tcp_links": 4}`.
            env: environment variables of all ranks, such as `{"OMP_NUM_THREADS": 1}`.
            profile: `own` records MPI profiles of all ranks; a path selects the libmpitrace there.
            expect: the expected result, such as `1.1GB/s`.
            workdir: ranks run in a copy of this folder; `raw/workdir` gets what they change.
            launch_of: any text that launches share, which are then judged together.
            order: `near`: neighbouring ranks on near hosts, as `cluster placement` found them.
            starter: of the ranks: `mpirun`, `srun`, ...; by default, what fits the hosts.
            params: of the benchmark: `cluster bench NAME --help` lists them.

        """
        every = all_variables(variables, mca, env)
        options = RunOptions(
            about=make_condition(condition, every, describe, expect, launch_of),
            runs=runs, timeout=timeout, detach=detach, listener=listener,
            profile=profile, workdir=workdir, order=order, starter=starter,
        )  # fmt: skip
        return self._run(benchmark, options, params)

    def p2p(self, **given: Unpack[P2PArgs]) -> Run:
        """Measure messages between two ranks: latency, bandwidth, one-way times, memory copies.

        Args:
            given: `metrics` (latency, bandwidth, ...), `sizes` (`"8:4MiB"`, `[8, "64KiB"]`),
                `window`, `pair`, `kernel`, `buffer`, `iterations`, `warm_up`, `until_precise`,
                `max_iterations`; and what `bench` itself takes.

        """
        return self("p2p", **given)

    def collectives(self, **given: Unpack[CollectivesArgs]) -> Run:
        """Measure collective operations of all ranks.

        Args:
            given: `operations` (allreduce, allgather, ...), `sizes`, `transport` (mpi, gloo, nccl,
                nccl4py),
                `kernel`, `iterations`, `warm_up`, `until_precise`, `max_iterations`; and what
                `bench` itself takes.

        """
        return self("collectives", **given)

    def iperf(self, **given: Unpack[IperfArgs]) -> Run:
        """Measure TCP between two hosts with iperf3.

        Args:
            given: `metrics` (forward, reverse), `streams`, `iterations`, `seconds`, `omit`, `pair`;
                and what `bench` itself takes.

        """
        return self("iperf", **given)

    def pairs(self, **given: Unpack[PairsArgs]) -> Run:
        """Measure pairs of hosts, all at once, to find which host or link is slow.

        Args:
            given: `metric` (bandwidth or latency), `rounds`, `groups`, `alone`, `confirm`, `pairs`,
                `milliseconds`, `allreduce`; and what `bench` itself takes.

        """
        return self("pairs", **given)

    def within(self, **given: Unpack[WithinArgs]) -> Run:
        """Measure copies between the GPUs, NUMA nodes or cores of each host.

        Args:
            given: `devices` (auto, gpus, numa or cores), `size`, `iterations`; and what `bench`
                itself takes.

        """
        return self("within", **given)

    def program(self, **given: Unpack[ProgramArgs]) -> Run:
        """Time a program on all ranks.

        Args:
            given: `command`, a list of words or a line for sh; and what `bench` itself takes.

        """
        return self("program", **given)

    def training(self, **given: Unpack[TrainingArgs]) -> Run:
        """Train a small network on real data, and say which stage of a step limits it.

        Args:
            given: `source` (memory, disk, `s3://BUCKET/PREFIX`), `folder`, `samples`, `shard`,
                `batch`, `width`, `workers`, `rounds`, `steps`, `warm_up`, `seed`, `target`,
                `seeds`, `epochs`, `device`; and what `bench` itself takes.

        """
        return self("training", **given)

    def gpu(self, **given: Unpack[GpuArgs]) -> Run:
        """Measure copies to, from, within and between the GPUs of one host.

        Args:
            given: `sizes`, `iterations`, `kernels`; and what `bench` itself takes.

        """
        return self("gpu", **given)

    if not TYPE_CHECKING:  # a type checker sees only the methods above

        def __getattr__(self, name: str) -> Callable[..., Run]:
            """Return the benchmark of a plug-in folder."""
            if name.startswith("_") or name not in plugins.names(Benchmark):
                raise AttributeError(
                    f"There is no benchmark {name!r}. There are: "
                    f"{', '.join(plugins.names(Benchmark))}"
                )
            return partial(self, name)

    def __repr__(self) -> str:
        """List the benchmarks."""
        return f"<Bench: {', '.join(plugins.names(Benchmark))}>"

    def __dir__(self) -> list[str]:
        """List the benchmarks, for completion in a shell or notebook."""
        return [*super().__dir__(), *plugins.names(Benchmark)]


RUN_OPTIONS = frozenset(signature(Bench.__call__).parameters)  # all others are the benchmark's
