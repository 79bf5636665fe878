"""The acceptance of `cluster hang`: planted hangs and slow jobs, on real MPI and real gloo.

With `scripts/test --long` there are 200 that hang and 100 that are slow; else one of each kind.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.core.model.hang import HangAnswer
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.jobs.job import Job
from tests.conftest import LONG, until
from tests.logs.dumps.planted import Case

pytestmark = pytest.mark.usefixtures("own_labs", "compiler")
CLASSES = {  # what a rank does, and the class of that
    "sleeps": "rank_absent",
    "sleeps in a pair": "rank_absent",
    "receives": "rank_absent",
    "stops": "process_stopped",
    "calls another": "order_differs",
    "reads": "slow_input",
    "locks": "deadlock",
    "fills": "disk_full",
    "is cut off": "link_cut",
}
OF_MPI = ("sleeps", "stops", "sleeps in a pair", "receives", "calls another")
OF_TORCH = (*OF_MPI[:3], "calls another", "reads", "locks", "fills", "is cut off")
SLOW = ("slow", "slow for long", "slow for a moment")
TRUSTED = 20.0  # seconds of a slow job that must not be called hung
COMMON = """
import os, random, signal, sys, threading, time
what, culprit, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
def sleep(): time.sleep(900)
def stops(): os.kill(os.getpid(), signal.SIGSTOP)
def slow(all_reduce, rank):
    longest = {"slow": 4, "slow for long": 6, "slow for a moment": 0.1}[what]
    while True:
        if rank == culprit: time.sleep(longest * chance.uniform(0.5, 1))
        all_reduce()
"""
MPI = """
import numpy as np
from mpi4py import MPI
world, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank
values = np.zeros(64)
def all_reduce(comm=world): comm.Allreduce(values, values.copy())
if what.startswith("slow"): slow(all_reduce, rank)
pair = world.Split(rank > 1)
for _ in range(chance.randint(3, 20)):
    all_reduce(); pair.Barrier()
if what == "sleeps in a pair" and rank < 2:
    sleep() if rank == culprit else all_reduce(pair)
if rank == culprit:
    {"sleeps": sleep, "stops": stops,
     "receives": lambda: world.Recv(values, source=(rank + 1) % world.size),
     "calls another": lambda: (world.Bcast(values, root=(rank + 1) % world.size), sleep()),
    }[what]()
all_reduce()
sleep()
"""
TORCH = """
import datetime, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
def dump():
    name = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank)
    while True:
        time.sleep(0.5)
        with open(name + ".part", "wb") as file:
            file.write(torch._C._distributed_c10d._dump_fr_trace_json())
        os.replace(name + ".part", name)
class Input(Dataset):
    def __len__(self): return 1
    def __getitem__(self, _): return open("/root/input").read()
def reads():
    os.path.exists("/root/input") or os.mkfifo("/root/input")
    list(DataLoader(Input()))
def locks():
    lock = threading.Condition()
    with lock: lock.wait()
def fills():
    with open("/root/full/checkpoint", "wb", buffering=0) as file:
        while True:
            try: file.write(b"x" * 65536)
            except OSError: time.sleep(0.5)
def another():
    dist.all_gather([torch.empty_like(values) for _ in range(size)], values); sleep()
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=900))
rank, size = dist.get_rank(), dist.get_world_size()
values = torch.ones(chance.choice((4, 1000)))
threading.Thread(target=dump, daemon=True).start()
all_reduce = lambda: dist.all_reduce(values)
if what.startswith("slow"): slow(all_reduce, rank)
pair = dist.new_group([0, 1])
for _ in range(chance.randint(3, 20)): all_reduce()
time.sleep(1)  # a dump has them
if what == "sleeps in a pair" and rank < 2:
    sleep() if rank == culprit else dist.all_reduce(values, group=pair)
if what == "is cut off":
    open("/root/ready", "w").close()
    values = torch.ones(1 << 22)
    while True: all_reduce()
if rank == culprit:
    {"sleeps": sleep, "stops": stops, "reads": reads, "locks": locks, "fills": fills,
     "calls another": another}[what]()
all_reduce()
sleep()
"""


def cases(kinds: Sequence[str], count: int) -> list[tuple[str, int]]:
    """Return what goes wrong, and a seed; half as many are slow."""
    selection = [*islice(cycle(kinds), count), *islice(cycle(SLOW), count // 2)]
    return [(kind, seed) for seed, kind in enumerate(selection)]


def score(
    c: Cluster, kinds: Sequence[str], count: int, begin: Callable[[str, int, int], Job]
) -> None:
    """Run the jobs one after another: the rank and class of 95%, and nothing that is slow."""
    wrong = []
    for fault, seed in cases(kinds, count):
        first = fault in ("sleeps in a pair", "calls another")
        culprit = 1 if first else random.Random(seed).randrange(c.spec.hosts)
        job = begin(fault, culprit, seed)
        answer = slow_answer(job) if fault in SLOW else hung_answer(job)
        job.stop()
        case = Case(
            kind=answer.cause.kind if answer.cause else "",
            ranks=tuple(row.rank for row in answer.cause.stragglers) if answer.cause else (),
        )
        kind = CLASSES.get(fault, "")
        planted = Case(kind=kind, ranks=() if kind == "link_cut" else (culprit,))
        if answer.verdict == "hung" if fault in SLOW else case != planted:
            wrong.append((fault, seed, answer.verdict, planted, case))

    assert not [row for row in wrong if row[0] in SLOW], wrong
    assert len(wrong) <= count * 0.05, wrong


def hung_answer(job: Job) -> HangAnswer:
    def look() -> HangAnswer | None:
        with suppress(SpecError):  # no rank has begun
            answer, _ = job.look_for_hang()
            return answer if answer.verdict == "hung" else None
        return None

    hang: HangAnswer = until(look, "the wait is long")
    return hang


def slow_answer(job: Job) -> HangAnswer:
    """Look for a while at a job that goes on; return the first answer that calls it hung."""
    until(lambda: job.state == "running", "it runs")
    deadline = time.monotonic() + TRUSTED
    while True:
        with suppress(SpecError):
            answer, _ = job.look_for_hang()
            if answer.verdict == "hung" or time.monotonic() > deadline:
                return answer


@pytest.mark.timed
def test_planted_hangs_of_mpi(home: Path) -> None:
    (home / "planted.py").write_text(COMMON + MPI)
    with cluster.launch("mpis", provider="lab", hosts=3) as c:
        c.put(home / "planted.py", "/root/planted.py")

        def begin(fault: str, culprit: int, seed: int) -> Job:
            line = f"python3 /root/planted.py '{fault}' {culprit} {seed}"
            c.bench("program", command=line, profile="own", detach=True, replace=True)
            return c.jobs["bench-program"]

        score(c, OF_MPI, 40 if LONG else len(OF_MPI), begin)


@pytest.mark.timed
def test_planted_hangs_of_torch(home: Path) -> None:
    python = os.environ.get("CLUSTER_TORCH_PYTHON", sys.executable)
    (home / "planted.py").write_text(COMMON + TORCH)
    env = {"TORCH_FR_BUFFER_SIZE": "200"}
    with cluster.launch("gloos", provider="lab", hosts=4) as c:
        results = c.hosts.try_run([python, "-c", "import torch"]).values()
        if any(isinstance(result, Exception) or result.status for result in results):
            pytest.skip("no torch on the hosts of a lab, which have no /tmp, /root, ... of here")
        c.put(home / "planted.py", "/root/planted.py")
        c.hosts.run("mkdir /root/full && mount -t tmpfs -o size=1m tmpfs /root/full")

        def begin(fault: str, culprit: int, seed: int) -> Job:
            c.hosts.run("rm -f /root/ready /root/full/*; ip route flush type blackhole")
            words = [python, "/root/planted.py", fault, str(culprit), str(seed)]
            records = {"TORCH_FR_DUMP_TEMP_FILE": f"/root/record{seed}_"}
            job = c.start(words, name=f"job{seed}", env=env | records, hang_after=900)
            if fault == "is cut off":
                peer = c.hosts[(culprit + 1) % 4].run("hostname -I").stdout.split()[0]
                ready = "test -e /root/ready"
                until(lambda: not c.hosts[culprit].run(ready, check=False).status, "it begins")
                c.hosts[culprit].run(f"ip route add blackhole {peer}/32")
            return job

        score(c, OF_TORCH, 160 if LONG else len(OF_TORCH), begin)
