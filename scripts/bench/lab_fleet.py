"""Causes planted in a lab of 16 hosts on four leaf switches: how often `check` names them."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from stopwatch import BIN, say

from cluster.orchestration.launch.launch import launch
from cluster.providers.lab.network import alter, alter_pair, alter_uplink
from cluster.providers.lab.processes import processes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.orchestration.cluster import Cluster
    from cluster.providers.lab.network import Direction

HOSTS, LEAVES = 16, 4
RATE, UPLINK = 40, 160  # Mbit/s: low, so that two cores carry all hosts at once
SLOW = (0.3, 0.8)  # of the rate that a slow host is left with
THIN = (0.15, 0.4)  # of the rate that a slow uplink is left with
NAMED = 0.9  # of the causes that are planted
LONGEST = 40.0  # seconds of a check
LOSS = "-p tcp ! --dport 22 -m statistic --mode random --probability 0.3 -j DROP"
BUFFER = "net.ipv4.tcp_rmem"
SCRIPTS = {  # of what is wrong on a host: how to make it, how to heal it, and what the check names
    "loss": (f"iptables -A INPUT {LOSS}", f"iptables -D INPUT {LOSS}", "tcp.retransmitted"),
    "small buffer": (
        f"sysctl -n {BUFFER} > /tmp/buffer.$0; sysctl -qw {BUFFER}='2304 2304 2304'",
        f'sysctl -qw {BUFFER}="$(cat /tmp/buffer.$0)"; rm /tmp/buffer.$0',
        f"tuning.sysctls.{BUFFER}",
    ),
    "small MTU": ("ip link set eth0 mtu 300", "ip link set eth0 mtu 1500", "mtu of eth0"),
    "slow queue": (
        f"""tc qdisc replace dev eth0 root handle 1: htb default 1 r2q 100
        for queue in '1 {RATE}' '2 {RATE // 4}'; do
          set -- $queue
          tc class add dev eth0 parent 1: classid 1:$1 htb rate {RATE}mbit
          tc qdisc add dev eth0 parent 1:$1 tbf rate $2mbit burst 64k latency 50ms
        done
        tc filter add dev eth0 parent 1: protocol ip u32 match u16 2 2 at 22 flowid 1:2""",
        "",
        "queue.eth0:2",
    ),
}
KINDS = (
    "slow tx", "slow rx", "slow both", "slow uplink", "cut host", "cut pair", *SCRIPTS,
)  # fmt: skip


class Fault(NamedTuple):
    """A fault: the part that has it, its directions and cause, and how to make and heal it."""

    part: str
    make: Callable[[], object]
    heal: Callable[[], object]
    directions: tuple[str, ...] = ("both",)
    cause: str = ""


def checking_a_lab(plantings: int) -> None:
    """Plant this many causes, one at a time, and check two thirds as many healthy fleets."""
    hits, wrong, times, fleets = 0, 0, list[float](), max(1, plantings * 2 // 3)
    options = {"leaves": str(LEAVES), "rate": f"{RATE}mbit", "uplink": f"{UPLINK}mbit"}
    with launch("bench16", provider="lab", hosts=HOSTS, options=options) as lab:
        for number in range(plantings):
            kind = KINDS[number % len(KINDS)]
            fault = _fault(lab, kind, random.Random(number))  # noqa: S311 - no secret
            fault.make()
            try:
                verdict = _check(lab)
            finally:
                fault.heal()
            right = [_is(fault, culprit) for culprit in verdict["blamed"]]
            hits += right == [True]
            words = ", ".join(map(_words, verdict["blamed"])) or f"nobody, {verdict['verdict']}"
            _show(f"{'' if right == [True] else 'NOT '}{kind} of {fault.part}: {words}")
        for _ in range(fleets):
            start = time.monotonic()
            healthy = _check(lab)
            times.append(time.monotonic() - start)
            wrong += bool(healthy["blamed"])
            _show(f"healthy: {healthy['verdict']} {', '.join(map(_words, healthy['blamed']))}")
    least = NAMED * plantings
    label = f"causes of {plantings} on {HOSTS} lab hosts named, and nobody else"
    say(label, str(hits), f"{least:.1f}", good=hits >= least, least=True)
    say(f"blamed in {fleets} healthy checks of them", str(wrong), "0", good=not wrong)
    median = statistics.median(times)
    say("check of them, median", f"{median:.1f} s", f"{LONGEST:g} s", good=median <= LONGEST)


def _fault(lab: Cluster, kind: str, chance: random.Random) -> Fault:
    machines, host = lab.machines, chance.randrange(1, HOSTS)  # the first one runs the check
    machine = machines[host]
    heal, part = partial(alter, machine, "heal"), f"host:{host}"
    if kind in SCRIPTS:
        make, undo, cause = SCRIPTS[kind]
        repair = partial(_run_inside, lab, host, undo) if undo else heal
        return Fault(
            part, partial(_run_inside, lab, host, make), repair, ("tx", "rx", "both"), cause
        )
    if kind == "slow uplink":
        leaf, rate = chance.randrange(LEAVES), f"{UPLINK * chance.uniform(*THIN):.2f}mbit"
        change = partial(alter_uplink, lab.name, leaf)
        return Fault(f"group:{leaf}", partial(change, "slow", rate), partial(change, "heal"))
    if kind == "cut pair":
        other = chance.choice([n for n in range(1, HOSTS) if n != host])
        low, high = sorted((host, other))
        link = partial(alter_pair, machines[low], machines[high])
        return Fault(f"pair:{low}-{high}", partial(link, "cut"), partial(link, "heal"))
    if kind == "cut host":
        return Fault(part, partial(alter, machine, "cut"), heal)
    rate = f"{RATE * chance.uniform(*SLOW):.2f}mbit"
    ways: dict[str, Direction] = {"slow tx": "tx", "slow rx": "rx", "slow both": "both"}
    make_slow = partial(alter, machine, "slow", rate, ways[kind])
    return Fault(part, make_slow, heal, (ways[kind],), "rate")


def _run_inside(lab: Cluster, host: int, script: str) -> None:
    """Run a script in the network of a host, as root of this machine."""
    (pid,) = (process.pid for process in processes_of(lab.name) if process.number == str(host))
    path = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    words = ["nsenter", f"--net=/proc/{pid}/ns/net", "sh", "-c", script, f"{lab.name}.{host}"]
    subprocess.run(words, check=True, env=path)


def _is(fault: Fault, culprit: dict[str, Any]) -> bool:
    causes = [*(c["counter"] for c in culprit["counters"][:2])]
    causes += [cause["setting"] for cause in culprit["causes"]]
    is_part = culprit["part"] == fault.part and culprit["direction"] in fault.directions
    return is_part and (not fault.cause or fault.cause in causes)


def _words(culprit: dict[str, Any]) -> str:
    causes = [f"{c['counter']} {c['own']:g}" for c in culprit["counters"][:2]]
    causes += [cause["setting"] for cause in culprit["causes"]]
    return f"{culprit['kind']} {culprit['part']} {culprit['direction']} ({', '.join(causes)})"


def _check(lab: Cluster) -> dict[str, Any]:
    words = [str(BIN / "cluster"), "check", lab.name, "--json"]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    if not process.stdout:
        _show(f"no verdict, exit {process.returncode}: {process.stderr[-2000:]}")
        return {"verdict": "none", "blamed": []}
    verdict: dict[str, Any] = json.loads(process.stdout)
    return verdict


def _show(words: str) -> None:
    sys.stdout.write(f"      {words}\n")
    sys.stdout.flush()
