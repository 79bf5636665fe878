"""Stalls of training that are planted: a link of known rate, slow preparation, a slow rank.

The store is moto's server in a network namespace of its own, behind a token bucket, so that the
link and nothing else decides. It needs root, and the libraries of the benchmark, which install
themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from stopwatch import ROOT, say

from cluster.analysis.models import step_limits
from cluster.orchestration.launch.launch import launch
from cluster.reports.words.step_limits import training_answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster.analysis.models.step_limits import Stage, TrainingVerdict
    from cluster.orchestration.cluster import Cluster
    from cluster.runs.run import Run

SPACE, NEAR, FAR = "train-store", "10.213.0.1", "10.213.0.2"
PORT = 5998
SHAPE = (
    f"tc -n {SPACE} qdisc replace dev {SPACE}1 root tbf rate {{rate}}bps burst 4kb latency 400ms"
)
POINTS = 3.0  # percentage points that a stall may be off
PAYLOAD = 1448 / 1514  # of a frame that TCP fills: what tbf counts has headers
LOOP, LOOP_RATE = "train-loop", "160mbit"  # the gradients take some 20 ms, the computing 5 to 10
BATCH, SHARD = 64, 256
LARGE_BATCH = 512  # its computing is long beside an exchange of the gradients on one machine
SERVER = """
import signal, boto3, moto.server, sys
address, port = sys.argv[1], int(sys.argv[2])
server = moto.server.ThreadedMotoServer(ip_address=address, port=port, verbose=False)
server.start()
boto3.resource("s3", endpoint_url=f"http://{address}:{port}").Bucket("digits").create()
print("ready", flush=True)
signal.pause()
"""
PLANTED = ROOT / "scripts" / "bench" / "planted"  # a plug-in, `training_planted`
COMPUTES = 0.03  # seconds of a step that are a sleep, on every rank
EXCHANGES = 0.04  # the same beside a slow link, so that its exchange is a third of a step
SLOWER, PREPARATION = 1.5, 0.3  # a rank, and the share of a step that the preparation stalls
STORED, SYNTHETIC = 188, 220  # images/s of document 002: from its store, and without
DOCUMENT_COMPUTES = 0.25  # seconds: that a store answers in milliseconds must not count
DOCUMENT_STEPS = 4  # timed in a round; each step has a shard of its own


def fetching_too_slowly(place: Path) -> None:
    """Let a link bring 188 samples where the computing takes 220, as in document 002.

    The run itself shapes the link, anew in each round, by what its steps with data resident take.
    """
    _plant()
    size, share = SHARD * 264 + 600, STORED / SYNTHETIC
    computes = {"computes": DOCUMENT_COMPUTES}
    plant = json.dumps({**computes, "link": share, "bytes": size / PAYLOAD, "shape": SHAPE})
    with _store(place) as variables, launch("stored", provider="local", hosts=1) as host:
        _sh(SHAPE.format(rate=round(size / DOCUMENT_COMPUTES)))
        run = host.bench(
            "training_planted", source="s3://digits/stored", env={**variables, "PLANT": plant},
            rounds=8, samples=32 * SHARD, shard=SHARD, batch=SHARD, steps=DOCUMENT_STEPS, workers=2,
            width=4,
        )  # fmt: skip
    verdict = _verdict(run)
    sys.stdout.write(f"      {training_answer(verdict)}\n")
    store, resident = (median(_values(run, "samples_rate", data)) for data in ("store", "resident"))
    rate_ratio, busy = store / resident, _busy(run)
    for unit, figure in (("samples/s of 220", SYNTHETIC * rate_ratio), ("% busy", 100 * busy)):
        target = share * (SYNTHETIC if unit.endswith("220") else 100)
        say(
            f"188 of 220 planted: {figure:.1f} {unit}, wanted {target:.1f}, off by",
            f"{abs(figure - target):.1f}", f"{POINTS:g}", good=abs(figure - target) <= POINTS,
        )  # fmt: skip
    _say_counts({"188 of 220": int(_names(verdict, "fetch"))}, 1)


def _busy(run: Run) -> float:
    """Return the share of the time in which the rank works, of the round in the middle."""
    parts = [_values(run, metric, "store") for metric in ("copy", "compute", "update")]
    works: list[float] = [sum(step) for step in zip(*parts, strict=True)]
    whole = _values(run, "step_time", "store")
    rounds = [
        slice(start, start + DOCUMENT_STEPS) for start in range(0, len(whole), DOCUMENT_STEPS)
    ]
    return median(sum(works[steps]) / sum(whole[steps]) for steps in rounds)


def naming_stalls(times: int) -> None:
    """Plant a slow preparation and a slow rank, each this often, and nothing as often.

    The preparation stalls 30 % of a step, and the rank computes 1.5 times as long as the other. The
    plants take turns: whoever stops it earlier has as many of each. A launch takes 10 to 13 s, four
    of them to load torch, so 20 of each take 13 minutes at most where nothing else runs.
    """
    _plant()
    slow = {"computes": COMPUTES, "preparation": PREPARATION}
    plants: dict[str, tuple[Stage, dict[str, float], int]] = {
        "preparation": ("preparation", slow, BATCH),
        "rank": ("slow_rank", {"computes": COMPUTES, "slower": SLOWER}, BATCH),
        "nothing": ("compute", {}, LARGE_BATCH),
    }
    right = dict.fromkeys(plants, 0)
    with launch("named", provider="local", hosts=1, ranks_per_host=2) as host:
        for number in range(1, times + 1):
            for plant, (stage, options, batch) in plants.items():
                verdict = _train(host, options, batch)
                is_rank = plant != "rank" or verdict.slowest == 1
                right[plant] += _names(verdict, stage) and is_rank
                line = f"{plant} {right[plant]}/{number}: {training_answer(verdict)}"
                sys.stdout.write(f"      {line}\n")
                sys.stdout.flush()
    _say_counts(right, times)


def naming_slow_links(times: int) -> None:
    """Plant a slow link between two ranks: the loopback of a namespace, shaped by tbf.

    The rest of this script runs in there: `naming_links`.
    """
    _sh(f"ip netns add {LOOP}")
    try:
        _sh(
            f"ip -n {LOOP} link set lo up",
            f"tc -n {LOOP} qdisc replace dev lo root tbf rate {LOOP_RATE} burst 128kb latency 1s",
        )
        argv = ["ip", "netns", "exec", LOOP, sys.executable, str(ROOT / "scripts" / "bench")]
        subprocess.run([*argv, str(times), "naming_links"], cwd=ROOT, check=True)
    finally:
        _sh(f"ip netns del {LOOP}")


def naming_links(times: int) -> None:
    """Train this often over whatever connects the ranks, which `naming_slow_links` has slowed."""
    _plant()
    right = 0
    with launch("linked", provider="local", hosts=1, ranks_per_host=2) as host:
        for number in range(1, times + 1):
            verdict = _train(host, {"computes": EXCHANGES}, BATCH)
            right += _names(verdict, "exchange")
            sys.stdout.write(f"      link {right}/{number}: {training_answer(verdict)}\n")
            sys.stdout.flush()
    _say_counts({"slow link": right}, times)


def _train(host: Cluster, plant: dict[str, float], batch: int) -> TrainingVerdict:
    """Train, and return the verdict.

    Without a plant the steps are long: two ranks on two cores wait for the exchange of the
    gradients for a quarter of a short one, which is a stall that nobody planted.
    """
    run = host.bench(
        "training_planted", env={"PLANT": json.dumps(plant)}, source="memory", rounds=6, steps=6,
        warm_up=2, batch=batch, shard=2 * batch,
    )  # fmt: skip
    return _verdict(run)


def _verdict(run: Run) -> TrainingVerdict:
    figures = step_limits.from_measurements(run.measurements, bytes(run.record.params))
    if figures is None:
        raise SystemExit("The rounds are too few to judge.")
    return step_limits.judge(figures)


def _names(verdict: TrainingVerdict, stage: Stage) -> bool:
    return verdict.stage == stage and not verdict.contradiction


def _say_counts(right: dict[str, int], times: int) -> None:
    for plant, count in right.items():
        say(
            f"{plant} planted, named", f"{count} of {times}", f"{times}",
            good=count == times, least=True,
        )  # fmt: skip


def _plant() -> None:
    os.environ["CLUSTER_PLUGINS"] = str(PLANTED)


def _values(run: Run, metric: str, data: str) -> list[float]:
    rows = (m for m in run.measurements if m.metric == metric and m.params.get("data") == data)
    return [value for m in rows for value in m.values]


@contextmanager
def _store(place: Path) -> Iterator[dict[str, str]]:
    """Serve a store in a namespace of its own."""
    config = place / "aws"
    config.write_text(
        "[default]\naws_access_key_id = testing\naws_secret_access_key = testing\n"
        "region = us-east-1\n"
    )
    _sh(f"ip netns add {SPACE}")
    try:
        _sh(
            f"ip link add {SPACE}0 type veth peer name {SPACE}1 netns {SPACE}",
            f"ip addr add {NEAR}/24 dev {SPACE}0", f"ip link set {SPACE}0 up",
            f"ip -n {SPACE} addr add {FAR}/24 dev {SPACE}1",
            f"ip -n {SPACE} link set {SPACE}1 up", f"ip -n {SPACE} link set lo up",
        )  # fmt: skip
        argv = ["ip", "netns", "exec", SPACE, sys.executable, "-c", SERVER, FAR, str(PORT)]
        env = {**os.environ, "AWS_CONFIG_FILE": str(config)}
        with subprocess.Popen(
            argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as server:
            if server.stdout:
                server.stdout.readline()  # ready
            try:
                yield {"AWS_CONFIG_FILE": str(config), "AWS_ENDPOINT_URL": f"http://{FAR}:{PORT}"}
            finally:
                server.kill()
    finally:
        _sh(f"ip netns del {SPACE}")


def _sh(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True)
