"""Files to hosts of a lab: an unchanged tree, a large file, and copies among hosts."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from stopwatch import ratio, say, seconds, taking_turns, timed

from cluster.core.model.hosts import ssh_words
from cluster.orchestration.launch.launch import launch

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.orchestration.cluster import Cluster

FILES, HOSTS, LINE = 5_000, 8, "1gbit"
MOST = 2_000_000  # bytes that a changed byte of 1 GB may send


def sending_files(repetitions: int, place: Path) -> None:
    """Measure `sync` and `put` on hosts of a lab; rsync does the same in turns."""
    source = place / "tree"
    for number in range(FILES):
        file = source / f"folder{number % 50}" / f"file{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * 50)
    with launch("bench-files", provider="lab", hosts=HOSTS) as lab:
        unchanged(lab, source, repetitions)
        changed_byte(lab, place / "large")
        shape_line(lab)
        tree_of_copies(lab, place / "content", repetitions)


def unchanged(lab: Cluster, source: Path, repetitions: int) -> None:
    """Compare `sync` of an unchanged tree to all hosts with one rsync to one of them."""
    access = lab.machines[0].access
    if access is None:
        sys.exit("a lab host is reached by SSH")
    *options, host = ssh_words(access)
    ssh = shlex.quote(shlex.join(["ssh", "-o", "BatchMode=yes", *options]))
    rsync = f"rsync -a -e {ssh} {source}/ {host}:/opt/rsync/"
    lab.hosts[0].run(["mkdir", "-p", "/opt/rsync"])
    seconds(["bash", "-c", rsync])
    lab.sync(source, "/opt/own")
    ways = (
        lambda: timed(lambda: lab.sync(source, "/opt/own")),
        lambda: seconds(["bash", "-c", rsync]),
    )
    own, base = taking_turns(ways, repetitions)
    ratio(f"sync of {FILES:,} unchanged files to {HOSTS} hosts, of one rsync", own, base, 2.0)


def changed_byte(lab: Cluster, folder: Path) -> None:
    """Count what a changed byte of 1 GB sends."""
    folder.mkdir()
    with (folder / "gigabyte").open("wb") as out:
        for _ in range(1000):
            out.write(os.urandom(1_000_000))
    lab.sync(folder, "/opt/large", hosts=lab.hosts[0])
    with (folder / "gigabyte").open("r+b") as file:
        file.seek(500_000_000)
        file.write(b"x")
    sent = lab.sync(folder, "/opt/large", hosts=lab.hosts[0]).sent_bytes
    (folder / "gigabyte").unlink()
    lab.run(["rm", "-rf", "/opt/large"])
    say("bytes sent for a changed byte of 1 GB", f"{sent:,}", f"{MOST:,}", good=sent < MOST)


def shape_line(lab: Cluster) -> None:
    """Let this machine send to the lab at no more than `LINE`."""
    device = f"$(ip -o route get {lab.machines[0].address} | sed 's/.* dev \\([^ ]*\\).*/\\1/')"
    shape = f"tc qdisc replace dev {device} root tbf rate {LINE} burst 512kb latency 50ms"
    seconds(["bash", "-c", shape])


def tree_of_copies(lab: Cluster, file: Path, repetitions: int) -> None:
    """Compare 100 MB to all hosts with 100 MB to one, over the same line."""
    file.write_bytes(os.urandom(100_000_000))
    shell = lab.remote.shell(lab.machines[0])
    ways = (
        lambda: timed(lambda: lab.put(file, "/opt/tree")),
        lambda: timed(lambda: shell.put(file, "/opt/one")),
    )
    tree, one = taking_turns(ways, min(repetitions, 5))
    ratio(f"100 MB to {HOSTS} hosts over a line of {LINE}, of one copy", tree, one, 3.0)
