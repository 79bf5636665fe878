"""Commands, files and installations on hosts of a lab, against OpenSSH on the same hosts."""

from __future__ import annotations

import os
import shlex
import shutil
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from stopwatch import BIN, ratio, say, seconds, shell_script, taking_turns, timed

from cluster.core.model.spec import Environment
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.launch import launch
from cluster.remote.environment.install import install
from cluster.remote.shells import Shell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.core.model.hosts import Completed, Machine


def ssh_of(machine: Machine) -> str:
    """Give OpenSSH's words for a lab host, quoted; scp takes the same options."""
    access = machine.access
    if access is None:
        sys.exit("a lab host is reached by SSH")
    known = f"-o UserKnownHostsFile={access.known_hosts} -o GlobalKnownHostsFile=/dev/null"
    return f"-i {access.key} {known} -o BatchMode=yes -o IdentitiesOnly=yes"


def running(repetitions: int) -> None:
    """Measure a command on 32 hosts, against OpenSSH clients in parallel."""
    with launch("bench32", provider="lab", hosts=32) as lab:
        lines = [f"ssh -n {ssh_of(m)} root@{m.address} hostname &" for m in lab.machines]
        openssh = "\n".join([*lines, "wait"])
        cold = [str(BIN / "cluster"), "run", "bench32", "--", "hostname"]

        ways = (
            lambda: seconds(cold),
            lambda: timed(lambda: lab.run(["hostname"])),
            lambda: shell_script(openssh),
        )
        own, again, base = taking_turns(ways, repetitions)
    ratio("cluster run on 32 hosts, cold", own, base, 1.2)
    ratio("cluster.run on 32 hosts, connected", again, base, 0.6)


class Recorder(Shell):
    """Does what a shell does, and keeps what was put and what was run.

    Args:
        shell: that does it.
        place: a folder here, for what was put.

    """

    def __init__(self, shell: Shell, place: Path) -> None:
        """Begin with nothing."""
        super().__init__(shell.machine)
        self._shell = shell
        self._place = place
        self.ran: list[Sequence[str]] = []
        self.to = ""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> Completed:
        """Run it."""
        self.ran.append(argv)
        return self._shell.run(argv, timeout=timeout, on_line=on_line)

    def put(self, path: Path, to: str) -> None:
        """Put it."""
        shutil.copytree(path, self._place)
        self.to = to
        self._shell.put(path, to)

    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        """Write it."""
        self._shell.write(text, path, mode=mode)

    def fetch(self, path: str, to: Path) -> None:
        """Fetch it."""
        self._shell.fetch(path, to)

    def exists(self, path: str) -> bool:
        """Look."""
        return self._shell.exists(path)

    def remove(self, path: str) -> None:
        """Remove it."""
        self._shell.remove(path)


def installing(repetitions: int, place: Path) -> None:
    """Measure 8 hosts made ready, against the same bytes and installer by scp and ssh."""
    with launch("bench8", provider="lab", hosts=1) as lab:
        name, shell = next(iter(lab.shells().items()))
        recorder = Recorder(shell, place / "desk")
        machines = {machine.name: machine for machine in lab.machines}
        install({name: recorder}, machines, Environment(), place / "logs")
    own, base = [], []
    for _ in range(repetitions):
        with launch("bench8", provider="lab", hosts=8) as lab:
            own.append(timed(lab.install))
        with launch("bench8", provider="lab", hosts=8) as lab:
            by_hand = replay(recorder, place / "desk", lab.machines)
            base.append(shell_script(by_hand))
    ratio("8 lab hosts ready", statistics.median(own), statistics.median(base), 1.5)


def replay(recorder: Recorder, desk: Path, machines: Sequence[Machine]) -> str:
    """Give a script that does what was recorded, with scp and ssh, on all hosts at once."""
    there = f"mkdir -p {recorder.to} && mv hand/* {recorder.to} && {shlex.join(recorder.ran[-1])}"
    lines = [
        f"{{ scp -q -r {ssh_of(m)} {desk} root@{m.address}:hand && "
        f"ssh -n {ssh_of(m)} root@{m.address} {shlex.quote(there)} || echo failed >&2; }} &"
        for m in machines
    ]
    return "\n".join([*lines, "wait"])


def launching_again(repetitions: int) -> None:
    """Measure a launch on hosts that are ready, against plain connections."""
    options = ["--provider", "lab", "--hosts", "8"]
    again = [str(BIN / "cluster"), "up", "bench8", *options, "--install"]
    subprocess.run(again, check=True, capture_output=True)
    lines = [f"ssh -n {ssh_of(m)} root@{m.address} true &" for m in attach("bench8").machines]
    script = "\n".join([*lines, "wait"])
    second, plain = taking_turns(
        (lambda: seconds(again), lambda: shell_script(script)), repetitions
    )
    attach("bench8").down()
    value = f"{second - plain:.2f} s more than connections ({second:.2f} s, {plain:.2f} s)"
    say("8 ready hosts launched again", value, "1.5 s", good=second - plain <= 1.5)  # noqa: PLR2004


def moving(repetitions: int, place: Path) -> None:
    """Measure a file of 1 GB to a host and back, against scp."""
    file = place / "gigabyte"
    with file.open("wb") as out:
        for _ in range(1000):
            out.write(os.urandom(1_000_000))
    with launch("bench-put", provider="lab", hosts=1) as lab:
        (machine,) = lab.machines
        to = f"scp -q {ssh_of(machine)} {file} root@{machine.address}:/opt/scp/gigabyte"
        back = f"scp -q {ssh_of(machine)} root@{machine.address}:/opt/scp/gigabyte {place}/scp"
        lab.run(["mkdir", "-p", "/opt/scp", "/opt/own"])
        ways = (
            lambda: timed(lambda: lab.put(file, "/opt/own/gigabyte")),
            lambda: shell_script(to),
            lambda: timed(lambda: lab.get("/opt/own", place / "own")),
            lambda: shell_script(back),
        )
        put, scp_to, get, scp_back = taking_turns(ways, repetitions)
    ratio("put of 1 GB", put, scp_to, 1.25)
    ratio("get of 1 GB", get, scp_back, 1.25)


def reading(repetitions: int) -> None:
    """Measure a link of a known rate."""
    with launch("bench-ruler", provider="lab", options={"rate": "1gbit"}) as lab:
        p2p = lab.bench("p2p", metrics=["oneway_time"], sizes="100MB", iterations=repetitions)
        iperf = lab.bench("iperf", iterations=repetitions, seconds=1)
    for summary in (*p2p.summary(), *iperf.summary()):
        if summary.share is not None:
            good = abs(summary.share - 1) <= 0.02  # noqa: PLR2004
            what = f"{summary.metric} at 1 gbit"
            say(what, f"{summary.share:.2%} of the bound", "2% off", good=good)
