"""Jobs that hang or are slow, as the files that they leave: what is wrong is known."""

import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import msgspec

from cluster.core.model.hang import ProcessState, Snapshot
from cluster.core.model.value import Value

KINDS = (
    *("rank_absent", "chain", "process_stopped", "process_gone", "host_dead", "order_differs"),
    *("shape_differs", "group_differs", "slow_input", "disk_full", "deadlock", "link_cut"),
)
SLOW = ("goes_on", "slow_steps", "first_step", "uneven_all_to_all", "counts")
NAMES = ("all_reduce", "broadcast", "_all_gather_base", "_reduce_scatter_base")
STACKS = {
    "slow_input": '  File "/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py", '
    'line 1133 in _try_get_data\n  File "/job/train.py", line 40 in main\n',
    "deadlock": '  File "/usr/lib/python3.11/threading.py", line 327 in wait\n'
    '  File "/job/train.py", line 41 in flush\n',
}
START = 1.7e9  # seconds since the epoch


class Case(Value, frozen=True, kw_only=True):
    """What is wrong, and the ranks to blame."""

    kind: str
    ranks: tuple[int, ...]


class Job:
    """Ranks that go through collectives of one group, one of them a second."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.size = chance.randint(3, 16)
        self.steps = chance.randint(3, 30)
        self.first = chance.choice((1, chance.randint(1, 10**6)))
        self.name = chance.choice(NAMES)
        self.version = f"2.{chance.randint(4, 10)}"
        self.pace = 1.0
        self.group = chance.choice(("0", "7", "world"))
        self.entries: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(self.size)}
        self.config = {rank: {self.group: list(range(self.size))} for rank in range(self.size)}

    def enter(self, rank: int, step: int, *, is_done: bool, **other: Any) -> None:
        """Let a rank enter its next collective."""
        entry = {
            "process_group": [self.group, "default_pg"],
            "collective_seq_id": self.first + step,
            "profiling_name": f"nccl:{self.name}",
            "time_created_ns": int((START + self.pace * step) * 1e9),
            "input_sizes": [[4, 8]],
            "input_dtypes": ["Float"],
            "state": "completed" if is_done else "scheduled",
            "retired": is_done,
            "is_p2p": False,
            "frames": [{"name": "step", "filename": "/job/train.py", "line": 7}],
        }
        self.entries[rank].append(entry | other)

    def run(self, steps: int) -> None:
        """Let all ranks go through collectives."""
        for rank in self.entries:
            for step in range(steps):
                self.enter(rank, step, is_done=True)

    def write(self, folder: Path, mtime: float, mark: str = "") -> None:
        """Write a dump of each rank, as PyTorch does."""
        for rank, entries in self.entries.items():
            config = {
                key: {"name": key, "desc": "", "ranks": str(ranks)}
                for key, ranks in self.config[rank].items()
            }
            dump = {"version": self.version, "pg_config": config, "entries": entries}
            plain = self.chance.random() < 0.5
            file = folder / f"{mark}trace_rank_{rank}{'.json' if plain else ''}"
            file.write_bytes(json.dumps(dump).encode() if plain else pickle.dumps(dump, 2))
            os.utime(file, (mtime, mtime))

    def write_processes(self, folder: Path, snapshots: list[Snapshot]) -> None:
        """Write what an agent says of processes."""
        (folder / "host.json").write_bytes(msgspec.json.encode(snapshots))


def plant(kind: str, folder: Path, seed: int) -> Case:
    """Write the dumps of a job in which this is wrong."""
    chance = random.Random(seed)
    job = Job(chance)
    job.run(job.steps)
    culprits = sorted(chance.sample(range(job.size), chance.randint(1, (job.size - 1) // 2)))
    waiters = [rank for rank in range(job.size) if rank not in culprits]
    time = START + job.steps + chance.choice((60.0, 600.0))
    for rank in range(job.size) if kind == "link_cut" else waiters:
        job.enter(rank, job.steps, is_done=False)
    if kind == "chain":  # those absent from the collective of all wait for one in their own
        culprits = [0]
        job = _chain(chance)
    _misbehave(job, kind, culprits)
    state: dict[str, ProcessState] = {
        "process_stopped": "stopped",
        "process_gone": "gone",
        "host_dead": "unreachable",
    }
    processes = [
        Snapshot(
            source="processes",
            rank=rank,
            host=f"host{rank // 4}",
            pid=100 + rank,
            at=time,
            state=state[kind] if kind in state and rank in culprits else "sleeping",
            full=("/checkpoints",) if kind == "disk_full" and rank in culprits else (),
        )
        for rank in range(job.size)
    ]
    if kind in (*state, "disk_full") or chance.random() < 0.5:
        job.write_processes(folder, processes)
    for rank in culprits if kind in STACKS else ():
        text = f"Current thread 0x00007f97 (most recent call first):\n{STACKS[kind]}"
        (folder / f"stack_rank{rank}.txt").write_text(text)
    if chance.random() < 0.5:
        job.write(folder, time - chance.choice((1.0, 20.0)), "earlier_")
    job.write(folder, time)
    kind = "rank_absent" if kind == "chain" else kind
    return Case(kind=kind, ranks=() if kind == "link_cut" else tuple(culprits))


def _misbehave(job: Job, kind: str, culprits: list[int]) -> None:
    """Let ranks enter another collective than the others."""
    changes: dict[str, dict[str, Any]] = {
        "order_differs": {"profiling_name": "nccl:all_to_all", "input_sizes": [[9]]},
        "shape_differs": {"input_sizes": [[4, 9]]},
    }
    for rank in culprits if kind in changes else ():
        job.enter(rank, job.steps, is_done=job.chance.random() < 0.3, **changes[kind])
    if kind == "group_differs":
        victim = min({*job.entries} - {*culprits})
        for rank in culprits:
            job.config[rank][job.group] = sorted({*range(job.size)} - {victim})
            job.enter(rank, job.steps, is_done=False)


def _chain(chance: random.Random) -> Job:
    """Let rank 0 enter nothing; rank 1 waits for it in a group of two, all others for both."""
    job = Job(chance)
    job.run(job.steps)
    for rank in range(2, job.size):
        job.enter(rank, job.steps, is_done=False)
    for rank in (0, 1):
        job.config[rank]["pair"] = [0, 1]
        job.enter(rank, -1, is_done=True, process_group=["pair", "x"])
    job.enter(1, job.steps, is_done=False, process_group=["pair", "x"], collective_seq_id=job.first)
    return job


def plant_slow(kind: str, folder: Path, seed: int) -> None:
    """Write the dumps of a job that is slow, or in an ordinary wait, and not hung."""
    chance = random.Random(seed)
    job = Job(chance)
    job.pace = {"slow_steps": 60.0, "first_step": 1.0}.get(kind, chance.choice((0.3, 1.0, 12.0)))
    job.steps = 1 if kind == "first_step" else job.steps
    job.run(job.steps)
    straggler = chance.randrange(job.size)
    if kind == "counts":
        _write_counts(job, straggler, folder)
        return
    start = START + job.pace * job.steps
    if kind == "goes_on":
        job.write(folder, start, "earlier_")
        for rank in job.entries:
            for step in range(job.steps, job.steps + 3):
                job.enter(rank, step, is_done=True)
        job.steps += 3
        start = START + job.pace * job.steps
    is_uneven = kind == "uneven_all_to_all"
    for rank in job.entries if is_uneven else {*job.entries} - {straggler}:
        job.enter(rank, job.steps, is_done=False)
        if is_uneven:
            sizes = {"input_sizes": [[rank + 1]], "profiling_name": "nccl:all_to_all"}
            job.entries[rank][-1] |= sizes
    waits = {"slow_steps": 150.0, "first_step": 20.0}.get(kind, 2.0)
    job.write(folder, start + chance.uniform(0.1, waits))


def _write_counts(job: Job, straggler: int, folder: Path) -> None:
    """Write what RAS says of every healthy job: for a moment, counts differ."""
    ranks = [
        {
            "rank": rank,
            "host": "a",
            "pid": rank + 9,
            "cuda_dev": rank,
            "collective_counts": {"AllReduce": 9 - (rank == straggler)},
        }
        for rank in job.entries
    ]
    group = {"hash": "0x1", "size": job.size, "ranks": ranks, "missing_ranks": []}
    text = json.dumps({"nccl_version": "2.30.7", "timestamp": "", "communicators": [group]})
    (folder / "ras.json").write_text(text)
