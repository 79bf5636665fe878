"""Jobs and files on lab hosts, beside OpenSSH and rsync in the same run."""

from __future__ import annotations

import shlex
import shutil
import statistics
import subprocess
import threading
import time
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stopwatch import ratio, say, taking_turns

from cluster.core.model.hosts import Machine, ssh_words
from cluster.orchestration.launch.launch import launch

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.orchestration.cluster import Cluster

MANY, SOME, FOLLOWED = 32, 8, 64  # hosts
JOBS, FILES = 50, 5_000
COPIED, LARGE = 100_000_000, 1_000_000_000  # bytes of a file
BURSTS, BURST = 5, 1_000  # seconds, and lines in each of them


def orchestrating(place: Path, repetitions: int) -> None:
    """Measure commands, jobs, the lines that they print, and files."""
    with launch("jobs64", provider="lab", hosts=FOLLOWED) as c:
        _follow(c)
    with launch("jobs32", provider="lab", hosts=MANY) as c:
        cost, base = _turns((lambda: c.run("true"), lambda: _by_openssh(c)), repetitions)
        ratio(f"a command on {MANY} hosts, to {MANY} OpenSSH clients at once", cost, base, 1.2)
        _copy(c, place)
    with launch("jobs8", provider="lab", hosts=SOME) as c:
        jobs = [c.start("sleep 600", name=f"j{number}") for number in range(JOBS)]
        running = sum(job.state == "running" for job in jobs)
        label = f"jobs of {JOBS} that run at once on {SOME} hosts"
        say(label, f"{running}", f"{JOBS}", good=running == JOBS, least=True)
        c.end_jobs("They were measured.")
        _sync(c, place, repetitions)


def _turns(calls: Sequence[Callable[[], object]], repetitions: int) -> list[float]:
    return taking_turns([partial(timeit.timeit, call, number=1) for call in calls], repetitions)


def _ssh(machine: Machine) -> list[str]:
    if machine.access is None:
        raise ValueError(f"{machine.name} is not reached over SSH.")
    return ["ssh", "-o", "BatchMode=yes", *ssh_words(machine.access)]


def _by_openssh(c: Cluster) -> None:
    clients = [subprocess.Popen([*_ssh(machine), "true"]) for machine in c.machines]
    if any([client.wait() for client in clients]):  # noqa: C419 - all are waited for
        raise RuntimeError("OpenSSH could not run a command.")


def _follow(c: Cluster) -> None:
    """Follow hosts that print lines in bursts; the first of each burst says when it was printed."""
    c.install()
    bursts = f"for n in $(seq {BURSTS}); do date +%s.%N; seq {BURST}; sleep 1; done"
    program = f"until [ -e go ]; do sleep 0.1; done; {bursts}"
    job, late, lines = c.start(program, name="lines"), [], 0
    before, start = time.process_time(), time.monotonic()
    threading.Timer(2, c.run, ["touch go"]).start()  # when all are followed
    for line in job.lines():
        lines += 1
        if "." in line.text:
            late.append(time.time() - float(line.text))
    cores = (time.process_time() - before) / (time.monotonic() - start)
    losses = FOLLOWED * BURSTS * (BURST + 1) - lines
    label = f"{FOLLOWED} hosts that print {BURST} lines a second"
    say(f"lines lost of {label}", str(losses), "0", good=not losses)
    say(f"processors to follow {label}", f"{cores:.2f}", "1", good=cores <= 1)
    delay = statistics.median(late)
    say("from a host's clock to the client, median", f"{delay:.3f} s", "0.2 s", good=delay <= 0.2)  # noqa: PLR2004 - as the page has it


def _copy(c: Cluster, place: Path) -> None:
    folder = place / "copied"
    folder.mkdir()
    (folder / "model").write_bytes(bytes(range(250)) * (COPIED // 250))
    report = c.sync(folder, "copied")
    copies = report.sent_bytes / COPIED
    label = f"copies of {COPIED // 10**6} MB over this machine's line, for {MANY} hosts"
    say(label, f"{copies:.2f}", "3", good=copies <= 3)  # noqa: PLR2004 - as the page has it


def _sync(c: Cluster, place: Path, repetitions: int) -> None:
    tree = place / "tree"
    tree.mkdir()
    for number in range(FILES):
        (tree / f"f{number}").write_text(f"{number}\n")
    c.sync(tree, "tree")
    *options, host = _ssh(c.machines[0])
    upload = ["rsync", "-a", f"--rsh={shlex.join(options)}", f"{tree}/", f"{host}:tree/"]
    subprocess.run(upload, check=True)
    ways = (lambda: c.sync(tree, "tree"), lambda: subprocess.run(upload, check=True))
    cost, base = _turns(ways, repetitions)
    ratio(f"sync of {FILES} unchanged files to {SOME} hosts, to one rsync", cost, base, 2)
    shutil.rmtree(tree)
    tree.mkdir()
    large = tree / "large"
    with large.open("wb") as file:
        file.truncate(LARGE)
    c.hosts[:1].sync(tree, "large")
    with large.open("r+b") as file:
        file.seek(LARGE // 2)
        file.write(b"x")
    size = c.hosts[:1].sync(tree, "large").sent_bytes
    label = f"sent of a file of {LARGE // 10**9} GB with a byte that differs"
    say(label, f"{size / 1e6:.2f} MB", "2 MB", good=size < 2_000_000)  # noqa: PLR2004
