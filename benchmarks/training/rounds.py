"""What each rank of `training` does: rounds, probes of each stage, an accuracy, a verdict."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from statistics import fmean, median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from cluster.analysis.limits.hardware import peak_flops
from cluster.analysis.models.step_limits import WORK, Trained, judge
from cluster.benchmarks.training import definitions
from cluster.benchmarks.training.definitions import TrainingParams
from cluster.core.model.results.measurements import Definition
from cluster.core.text.units import format_bytes
from cluster.measure import groups
from cluster.measure.buffers import place_on_host
from cluster.measure.gpu import BusySampler
from cluster.measure.rank import Rank
from cluster.measure.training import digits, sources
from cluster.measure.training.digits import Digits
from cluster.measure.training.sources import Batch, Loader, MemorySource, ShardSource, Stages
from cluster.measure.training.trainer import Trainer
from cluster.reports.words.step_limits import training_answer

KEPT = 32  # shards that a rank keeps in memory, and goes through again and again
SAMPLE_BYTES = 4 * digits.SIDE**2 + 8  # an image in single precision, and its label
LOADED = ("fetch", "preparation")  # the parts of a step that end when its batch is there
OWN = (*WORK, "exchange")
PROBED = 3  # exchanges per round, without any computing
ON_CPU = (
    "GPU utilisation and model FLOPs utilisation are not given: processors trained, and no list "
    "has their peak. With GPUs: --device cuda."
)
GLOBAL_BATCH = 64  # samples of a step of all ranks: the same training on any number of them


class Utilisation:
    """The utilisation of one rank's GPU; nothing is recorded on a processor."""

    def __init__(self, rank: Rank, torch: Any, device: str, phases: tuple[str, ...]) -> None:  # noqa: ANN401
        self._rank = rank
        self._sampler: BusySampler | None = None
        self._peak: float | None = None
        self._busy: dict[str, list[float]] = {}
        self._share: dict[str, list[float]] = {}
        if device == "cpu":
            rank.note(ON_CPU)
            return
        properties = torch.cuda.get_device_properties(device)
        peak = peak_flops(str(properties.name))
        if peak is None:
            rank.note(
                f"Model FLOPs utilisation is not given: gpus.toml has no peak of {properties.name}."
            )
        else:
            self._peak = peak.rate
            rank.note(
                f"Model FLOPs utilisation is of {peak.rate / 1e12:.3g} TFLOP/s: {peak.source}."
            )
        uuid = getattr(properties, "uuid", None)
        self._sampler = BusySampler(f"GPU-{uuid}" if uuid else device.partition(":")[2])
        self._busy = {phase: self._series(definitions.GPU_BUSY, phase) for phase in phases}
        if rank.number == 0 and self._peak:
            self._share = {phase: self._series(definitions.MODEL_FLOPS, phase) for phase in phases}

    def record_busy(self, phase: str, begin: float, end: float) -> None:
        """Record the driver's samples of a round's timed steps, by `time.perf_counter`."""
        if self._sampler is not None:
            self._busy[phase] += self._sampler.between(begin, end)

    def record_share(self, phase: str, rate: float, flops: int) -> None:
        """Record a round's share of the peak, from the samples per second of all ranks."""
        if phase in self._share and self._peak:
            self._share[phase].append(100 * rate * flops / (self._peak * self._rank.size))

    def close(self) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def _series(self, definition: Definition, phase: str) -> list[float]:
        return self._rank.begin(definition, {"data": phase}, unit=definition.unit, is_beside=True)


class _Setting(NamedTuple):
    """What all rounds of a rank share."""

    rank: Rank
    params: TrainingParams
    trainer: Trainer
    shard_source: ShardSource
    memory: MemorySource
    names: Sequence[str]  # of this rank's shards
    in_memory: Sequence[str]  # of those in memory
    resident: Sequence[tuple[Any, Any]]
    stages: Callable[[ShardSource], Stages]
    utilisation: Utilisation


class _Phase(NamedTuple):
    """The open series of one kind of step."""

    name: str
    steps: list[float]
    parts: dict[str, list[float]]


def train(rank: Rank, params: TrainingParams, prepare: Callable[[Digits], Digits]) -> None:
    """Train on this rank (ClusterError: a library is missing, or the data cannot be read)."""
    backend = "nccl" if params.device == "cuda" else "gloo"
    torch = groups.require_torch(backend, "training")
    device = groups.choose_gpu(rank, torch) if params.device == "cuda" else "cpu"
    # Use every core that the job may use: mpirun binds a rank to one, and this one has threads. The
    # parent is mpirun itself, or its daemon on this host, and is not bound.
    cores = os.sched_getaffinity(os.getppid())
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(max(1, len(cores) // place_on_host(rank.comm)[1]))
    if params.device == "cuda":  # the peak that counts is that of single precision
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    groups.join_torch(rank, torch, backend)
    real, test_set = digits.load()
    trainer = Trainer(torch, device, params.width, params.seed)
    utilisation = Utilisation(rank, torch, device, params.phases)

    # Write the data where they are asked for, and keep this rank's first shards in memory.
    memory = MemorySource()
    shard_source = sources.attach(rank, params.source, params.folder, real, params.dataset)
    names = [digits.shard_name(n) for n in range(rank.number, params.dataset.shards, rank.size)]
    in_memory = names[:KEPT]
    resident = []
    for name in in_memory:
        samples = digits.make_shard(real, params.dataset, int(name.partition(".")[0]))
        memory.write(name, digits.encode(samples))
        for start in range(0, params.shard, params.batch):
            ready = digits.normalise(samples.part(start, start + params.batch))
            resident.append(trainer.place(ready))
    setting = _Setting(
        rank, params, trainer, shard_source or memory, memory,
        names if shard_source else in_memory, in_memory, resident,
        lambda source: Stages(source, prepare, params.batch), utilisation,
    )  # fmt: skip
    _add_notes(setting, torch)
    _rounds(setting)
    utilisation.close()
    if params.target:
        train_to_accuracy(rank, params, lambda seed: Trainer(torch, device, params.width, seed),
                          prepare(real), prepare(test_set))  # fmt: skip
    torch.distributed.destroy_process_group()


def _add_notes(setting: _Setting, torch: Any) -> None:  # noqa: ANN401
    rank, params, trainer = setting.rank, setting.params, setting.trainer
    rank.note(
        f"torch {torch.__version__} trained {trainer.parameters} parameters with "
        f"{torch.get_num_threads()} thread(s) per rank; a step reduces "
        f"{format_bytes(trainer.gradient_bytes)}."
    )
    _, local_ranks = place_on_host(rank.comm)
    cores, threads = len(os.sched_getaffinity(0)), local_ranks * (1 + 2 * params.workers)
    if threads > cores:
        rank.note(
            f"{local_ranks} rank(s) with {params.workers} worker(s) each are {threads} threads on "
            f"{cores} core(s): loading takes time from computing, and that is in the preparation "
            "stall."
        )
    size = params.samples * SAMPLE_BYTES
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if setting.shard_source is not setting.memory and size < free:
        rank.note(
            f"The data are {format_bytes(size)} and fit in memory: a program that keeps them would "
            "read them once. Each shard is read again here, so the stall is that of data that do "
            "not fit."
        )


def _rounds(setting: _Setting) -> None:
    """Alternate the kinds of steps and the probes, and judge them."""
    rank, params = setting.rank, setting.params
    phases = [_phase(rank, name) for name in params.phases]
    results = _Results(rank, params)
    for number in range(params.rounds):
        for place, phase in enumerate(phases):
            result = number + place / len(phases)
            rank.progress(result, params.rounds, f"round {number + 1}, data {phase.name}")
            rate = results.add_round(phase.name, _train(setting, phase, number))
            setting.utilisation.record_share(phase.name, rate, setting.trainer.flops)
        _probe(setting, results, number)
    results.series(definitions.GRADIENT_BYTES).append(setting.trainer.gradient_bytes)
    for definition, value in (
        (definitions.REQUESTS, setting.shard_source.requests),
        (definitions.BYTES_READ, setting.shard_source.bytes),
    ):
        rank.begin(definition, {}, unit=definition.unit, is_beside=True).append(value)
    rank.end()
    rank.progress(params.rounds, params.rounds, "rounds")

    resident = phases[0].parts
    works = [sum(parts) for parts in zip(*(resident[part] for part in WORK), strict=True)]
    busy = rank.comm.gather(_by_rounds(works, params.steps))
    exchanges = rank.comm.gather(resident["exchange"])
    if busy is None or exchanges is None:
        return
    last = [min(waits) for waits in zip(*exchanges, strict=True)]
    link = results.rate(definitions.LINK_RATE)
    size = len(setting.memory.fetch(setting.in_memory[0])) / params.shard
    figures = Trained(
        samples=params.batch * rank.size,
        resident=results.steps("resident"),
        memory=results.steps("memory"),
        actual=results.steps(params.phases[-1]),
        busy=tuple(busy),
        waits=_by_rounds(last, params.steps),
        fetch=None if link is None else link / size,
        preparation=results.rate(definitions.PREPARATION_RATE),
        exchange=results.rate(definitions.EXCHANGE_RATE),
    )
    note = f"{training_answer(judge(figures))}."
    rank.note(note)
    rank.print_line(f"with data {params.phases[-1]}: {note}")


def _phase(rank: Rank, name: str) -> _Phase:
    def series(definition: Definition) -> list[float]:
        return rank.begin(definition, {"data": name}, is_beside=True)

    waits = () if name == "resident" else LOADED
    parts = {p: series(part) for p, part in definitions.PARTS.items() if p in (*OWN, *waits)}
    return _Phase(name, series(definitions.STEP_TIME), parts)


def _train(setting: _Setting, phase: _Phase, number: int) -> float:
    """Do the steps of one kind in a round; return the seconds of those that are timed."""
    params, trainer = setting.params, setting.trainer
    take, close = _feed(setting, phase.name, number)
    try:
        setting.rank.barrier()
        begin = end = 0.0
        for step in range(-params.lead_steps, params.steps):
            if step == 0:
                begin = end = perf_counter()
            batch = take()
            samples = batch.samples if isinstance(batch, Batch) else batch
            parts, _ = trainer.step(samples)
            if step >= 0:
                last, end = end, perf_counter()
                phase.steps.append(end - last)
                if isinstance(batch, Batch):
                    phase.parts["fetch"].append(batch.fetch_wait)
                    phase.parts["preparation"].append(batch.preparation_wait)
                for name in OWN:
                    phase.parts[name].append(getattr(parts, name))
        setting.utilisation.record_busy(phase.name, begin, end)
        return end - begin
    finally:
        close()


def _feed(
    setting: _Setting, phase: str, number: int
) -> tuple[Callable[[], Batch | tuple[Any, Any]], Callable[[], None]]:
    """Return what the steps of a round take their batches from, and what ends it."""
    if phase == "resident":
        numbers = iter(range(10**9))
        resident = setting.resident
        return (lambda: resident[next(numbers) % len(resident)]), (lambda: None)
    source, names = (
        (setting.memory, setting.in_memory)
        if phase == "memory"
        else (setting.shard_source, _turn(setting, 2 * number))
    )
    loader = Loader(setting.stages(source), names, setting.params.workers)
    return loader.next, loader.close


def _turn(setting: _Setting, number: int) -> Sequence[str]:
    """Go on where the turn before ended: a store may keep at hand what it has just sent."""
    params, names = setting.params, setting.names
    first = number * (params.lead_steps + params.steps) * params.batch // params.shard % len(names)
    return (*names[first:], *names[:first])


class _Results:
    """What rank 0 knows of all ranks, round by round; the other ranks only tell it."""

    def __init__(self, rank: Rank, params: TrainingParams) -> None:
        self.rank, self.params = rank, params
        self.seconds: dict[str, list[float]] = {phase: [] for phase in params.phases}
        self.probes: dict[str, list[float]] = {}
        self._rates = {
            phase: self.series(definitions.SAMPLES_RATE, {"data": phase}) for phase in params.phases
        }
        self._probe_series: dict[Definition, list[float]] = {}

    def series(self, definition: Definition, params: dict[str, Any] | None = None) -> list[float]:
        """Begin a series that only rank 0 records."""
        if self.rank.number:
            return []
        return self.rank.begin(definition, params or {}, unit=definition.unit, is_beside=True)

    def slowest(self, seconds: float) -> float:
        """Return the time of the slowest rank to all of them."""
        return float(max(self.rank.comm.allgather(seconds)))

    def add_round(self, phase: str, seconds: float) -> float:
        """Note how long a round took; return the samples per second of all ranks."""
        slowest = self.slowest(seconds)
        self.seconds[phase].append(slowest)
        samples = self.params.steps * self.params.batch * self.rank.size
        self._rates[phase].append(samples / slowest)
        return samples / slowest

    def add_probe(self, definition: Definition, amount: float, seconds: float) -> None:
        """Note what all ranks did of one stage alone."""
        if definition not in self._probe_series:
            self._probe_series[definition] = self.series(definition)
        rate = amount * self.rank.size / self.slowest(seconds)
        self._probe_series[definition].append(rate)
        self.probes.setdefault(definition.metric, []).append(rate)

    def steps(self, phase: str) -> tuple[float, ...]:
        return tuple(seconds / self.params.steps for seconds in self.seconds[phase])

    def rate(self, definition: Definition) -> float | None:
        """Return the median of a probe; none if it was not made."""
        probes = self.probes.get(definition.metric)
        return median(probes) if probes else None


def _by_rounds(values: Sequence[float], steps: int) -> tuple[float, ...]:
    return tuple(median(values[start : start + steps]) for start in range(0, len(values), steps))


def _probe(setting: _Setting, results: _Results, number: int) -> None:
    """Do one stage at a time, on all ranks at once."""
    params, rank = setting.params, setting.rank
    samples = params.steps * params.batch
    if setting.shard_source is not setting.memory:
        rank.barrier()
        begin, before = perf_counter(), setting.shard_source.bytes
        with ThreadPoolExecutor(max(1, params.workers)) as pool:
            names = islice(cycle(_turn(setting, 2 * number + 1)), samples // params.shard)
            list(pool.map(setting.stages(setting.shard_source).fetch, names))
        size = setting.shard_source.bytes - before
        results.add_probe(definitions.LINK_RATE, size, perf_counter() - begin)
    loader = Loader(setting.stages(setting.memory), setting.in_memory, params.workers)
    try:
        rank.barrier()
        begin = perf_counter()
        for _ in range(params.steps):
            loader.next()
        results.add_probe(definitions.PREPARATION_RATE, samples, perf_counter() - begin)
    finally:
        loader.close()
    if rank.size > 1:
        rank.barrier()
        shortest = min(setting.trainer.exchange() for _ in range(PROBED))
        results.add_probe(definitions.EXCHANGE_RATE, params.batch, shortest)


def train_to_accuracy(
    rank: Rank,
    params: TrainingParams,
    trainer: Callable[[int], Trainer],
    real: Digits,
    test_set: Digits,
) -> None:
    """Train several times, each time with other weights and another order, until a target."""
    point = {"target": 100 * params.target}
    times, accuracies, losses = (
        rank.begin(kind, {**point}, unit=kind.unit, is_beside=True) if rank.number == 0 else []
        for kind in definitions.ACCURACY
    )
    failures = 0
    for number in range(params.seeds):
        rank.progress(number, params.seeds, f"to {params.target:.0%} accuracy")
        seed = params.seed + number
        model = trainer(seed)
        duration, accuracy, loss = 0.0, 0.0, 0.0
        for epoch in range(params.epochs):
            begin = perf_counter()
            step_losses = [model.step(batch)[1] for batch in _batches(rank, real, seed, epoch)]
            duration += perf_counter() - begin
            loss = fmean(step_losses)
            accuracy = model.accuracy(test_set)
            if accuracy >= params.target:
                break
        seconds = max(rank.comm.allgather(duration))
        accuracies.append(100 * accuracy)
        losses.append(fmean(rank.comm.allgather(loss)))
        if accuracy >= params.target:
            times.append(seconds)
        else:
            failures += 1
    rank.end()
    rank.note(
        f"{params.seeds - failures} of {params.seeds} seeds reached {params.target:.1%} accuracy "
        f"within {params.epochs} epochs, with {GLOBAL_BATCH} samples per step of all ranks."
    )


def _batches(rank: Rank, real: Digits, seed: int, epoch: int) -> Iterator[Digits]:
    """Return this rank's part of each global batch of an epoch."""
    order = np.random.default_rng([seed, epoch]).permutation(len(real))
    share = GLOBAL_BATCH // rank.size
    for start in range(0, len(real) - GLOBAL_BATCH + 1, GLOBAL_BATCH):
        first = start + rank.number * share
        indices = order[first : first + share]
        yield Digits(images=real.images[indices], labels=real.labels[indices])
