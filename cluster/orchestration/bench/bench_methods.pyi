# Written by scripts/stubs.
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from cluster.orchestration.bench.bench import BenchCall
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.bench.plan import HostOrder
from cluster.orchestration.bench.working_folder import WorkingFolder
from cluster.runs.run import Run

class BenchOptions(TypedDict, total=False):
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
    replace: bool
    yes: bool
    busy: bool

class Bench(BenchCall):
    def collectives(
        self,
        *,
        iterations: int | None = ...,
        warm_up: int | None = ...,
        until_precise: bool = ...,
        max_iterations: int | None = ...,
        operations: str | Sequence[str] = ...,
        sizes: str | int | Iterable[int | str] = ...,
        transport: Literal["mpi", "gloo", "nccl", "nccl4py"] = ...,
        kernel: Literal["auto", "c", "python"] = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def gpu(
        self,
        *,
        sizes: str | int | Iterable[int | str] = ...,
        iterations: int = ...,
        kernels: int = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def iperf(
        self,
        *,
        metrics: str | Sequence[str] = ...,
        streams: str | int | Sequence[int] = ...,
        iterations: int = ...,
        seconds: int = ...,
        omit: int = ...,
        pair: str | tuple[int, int] = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def p2p(
        self,
        *,
        iterations: int | None = ...,
        warm_up: int | None = ...,
        until_precise: bool = ...,
        max_iterations: int | None = ...,
        metrics: str | Sequence[str] = ...,
        sizes: str | int | Iterable[int | str] = ...,
        window: int | None = ...,
        pair: str | tuple[int, int] = ...,
        kernel: Literal["auto", "c", "python"] = ...,
        buffer: Literal["cpu", "cuda"] = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def pairs(
        self,
        *,
        metric: Literal["bandwidth", "latency"] = ...,
        rounds: int = ...,
        groups: str | int | Sequence[int] = ...,
        alone: int = ...,
        confirm: bool = ...,
        pairs: str | Sequence[str] = ...,
        milliseconds: int = ...,
        seconds: float = ...,
        skip: str | int | Sequence[int] = ...,
        limit: float = ...,
        allreduce: int = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def program(
        self,
        *,
        command: str | Sequence[str] = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def training(
        self,
        *,
        source: str | Sequence[str] = ...,
        folder: str | Sequence[str] = ...,
        samples: int = ...,
        shard: int = ...,
        batch: int = ...,
        width: int = ...,
        workers: int = ...,
        rounds: int = ...,
        steps: int = ...,
        warm_up: int = ...,
        seed: int = ...,
        target: float = ...,
        seeds: int = ...,
        epochs: int = ...,
        device: Literal["cpu", "cuda"] = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
    def within(
        self,
        *,
        devices: Literal["auto", "gpus", "numa", "cores"] = ...,
        size: int = ...,
        iterations: int = ...,
        **options: Unpack[BenchOptions],
    ) -> Run: ...
