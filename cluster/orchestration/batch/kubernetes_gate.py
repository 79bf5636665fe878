"""A gate before a Job of Kubernetes: its pods test their nodes before its containers start.

EXPERIMENTAL. `cluster more script gate-kubernetes` adds an init container that runs this module: in
the pod of index 0 it tests the nodes of all, in the others it obeys, and all end with one verdict.
"""

import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.structs import replace

from cluster.core import decoders, plugins
from cluster.core.errors import SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.network.gate import STATUS, Gate
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.text.units import parse_rate, parse_seconds
from cluster.fleet.gate import decide
from cluster.measure.benchmark import Benchmark
from cluster.measure.first_host import HOSTS, NAMES, REACH
from cluster.measure.main import measure_alone
from cluster.measure.pairs import tcp
from cluster.orchestration.fleet_check import judge_fleet
from cluster.providers.kubernetes.objects import RESTRICTED
from cluster.reports.words.gate import event_words, with_words
from cluster.runs.run import PAIRS, Run

NAME, NODE = "gate", "CLUSTER_GATE_NODE"  # of the container, and of the variable with its node
MESSAGE = Path("/dev/termination-log")  # 4096 bytes of it are kept
NAMED = 3  # bad parts, in the message
RESERVE = 2.0  # seconds of the time, to end the agents and judge


class KubernetesGate(Value, frozen=True, kw_only=True):
    """What a gate before a Job of Kubernetes does.

    Args:
        image: Of the gate: with Python and cluster, and a user who is not root.
        limit: What the link of a node should carry, such as 100gbit.
        within: How long the tests may take.
        wait: How long the pods may take to be there.
        start_undecided: Let the Job start also if the gate is UNDECIDED.
    """

    image: str = ""
    limit: str = ""
    within: str = "60s"
    wait: str = "10min"
    start_undecided: bool = False

    def figures(self) -> tuple[float, float, float]:
        """Return the bytes per second of a link, and the seconds of tests and wait (SpecError)."""
        if not self.image or not self.limit:
            raise SpecError(
                "A gate of Kubernetes needs an image, and what the link of a node should carry.",
                means="A pod's own interface does not say how fast its node is.",
                remedy="Type: --image REGISTRY/cluster:1 --limit 100gbit",
            )
        return parse_rate(self.limit), parse_seconds(self.within), parse_seconds(self.wait)


def gated_job(text: str, gate: KubernetesGate, python: str) -> str:
    """Write a Job with a gate, and the Service and the Secret that it needs (SpecError)."""
    job = _indexed_job(text)
    meta, spec, pod = job["metadata"], job["spec"], job["spec"]["template"]["spec"]
    name = f"{meta['name']}-{NAME}"
    subdomain = pod.setdefault("subdomain", name)
    hosts = f"{meta['name']}-{{}}.{subdomain}"
    request = msgspec.json.encode(gate).decode()
    key = {"secretKeyRef": {"name": name, "key": tcp.KEY}}
    variables = ((NODE, {"fieldRef": {"fieldPath": "spec.nodeName"}}), (tcp.KEY, key))
    container = {
        "name": NAME,
        "image": gate.image,
        "command": [python, "-P", "-m", __name__, request, hosts, str(spec["completions"])],
        "env": [{"name": variable, "valueFrom": source} for variable, source in variables],
        "resources": pod["containers"][0].get("resources", {}),
        "securityContext": RESTRICTED,
    }
    pod["initContainers"] = [container, *pod.get("initContainers", ())]
    if pod["restartPolicy"] == "Never":  # a bad node stays bad
        codes = {"containerName": NAME, "operator": "In", "values": [STATUS["BAD"]]}
        rules = spec.setdefault("podFailurePolicy", {}).setdefault("rules", [])
        rules.insert(0, {"action": "FailJob", "onExitCodes": codes})
    selector = {"job-name": meta["name"]}  # pods whose gate is not open yet are not ready
    names = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    common = {"apiVersion": "v1", "metadata": meta | {"name": name}}
    service = [common | {"kind": "Service", "spec": names}] if subdomain == name else []
    secret = common | {"kind": "Secret", "stringData": {tcp.KEY: secrets.token_hex()}}
    manifest = {"apiVersion": "v1", "kind": "List", "items": [*service, secret, job]}
    return decoders.encode_indented(manifest).decode()


def _indexed_job(text: str) -> Any:  # noqa: ANN401 - most of it is not ours
    """Read a Job whose pods all run at the same time, and know their numbers (SpecError)."""
    try:
        job = msgspec.json.decode(text)
        count, all_at_once = job["spec"]["completions"], job["spec"]["parallelism"]
        kind = (job["kind"], job["spec"]["completionMode"])
        if job["metadata"]["name"] and kind == ("Job", "Indexed") and 1 < count == all_at_once:
            return job
    except (msgspec.DecodeError, KeyError, TypeError):
        pass
    raise SpecError(
        "Standard input is no Job of Kubernetes, as JSON, that could have a gate.",
        means="It needs a name, `completionMode: Indexed`, and two or more `completions`, as many "
        "as its `parallelism`: the pods test one another.",
        remedy="Type: kubectl create --dry-run=client -o json -f job.yaml | "
        "cluster more script gate-kubernetes --image IMAGE --limit RATE | kubectl create -f -",
    )


def _conduct(gate: KubernetesGate, hosts: Sequence[str]) -> Gate:
    """Test the nodes of all pods, and send the answer to the other pods."""
    pods: list[Connection] = []
    start, answer = time.monotonic(), Gate(verdict="UNDECIDED", code="not_ready")
    try:
        pods.extend(map(tcp.connect, hosts[1:]))
        signal.setitimer(signal.ITIMER_REAL, 0)
        start = time.monotonic()
        nodes = [os.environ[NODE], *(pod.recv_bytes().decode() for pod in pods)]
        if len({*nodes}) == len(nodes):
            answer = _prove(gate, hosts, nodes)
        else:  # pods of one node have no network between them
            answer = replace(answer, code="no_network")
    except KeyboardInterrupt:
        present = event_words("late_pods", len(pods) + 1, len(hosts), gate.wait)
        answer = replace(answer, reason=present)
    finally:
        took = round(time.monotonic() - start, 3)
        answer = with_words(replace(answer, within=gate.figures()[1], took=took), _job(hosts))
        for pod in pods:
            with suppress(OSError):  # it was killed
                pod.send_bytes(msgspec.json.encode(answer))
    return answer


def _job(hosts: Sequence[str]) -> str:
    return hosts[0].partition(".")[0].removesuffix("-0")


def _prove(gate: KubernetesGate, hosts: Sequence[str], nodes: Sequence[str]) -> Gate:
    limit, within, _ = gate.figures()
    benchmark = plugins.load(Benchmark, PAIRS)
    params = {"limit": limit, "confirm": True, "seconds": max(1.0, within - RESERVE)}
    addresses, reach = ",".join(hosts), (sys.executable, "-P", "-m", tcp.__name__, "{}")
    os.environ.update({HOSTS: addresses, NAMES: addresses, REACH: shlex.join(reach)})
    record = Record(
        id=NAME, benchmark=PAIRS, status="done", at=time.time(),
        spec=ClusterSpec(name=NAME, provider="kubernetes", hosts=len(nodes)),
        machines=tuple(
            Machine(name=node, id=node, address=host, shell="batch", folder="", bin="")  # noqa: S604
            for host, node in zip(hosts, nodes, strict=True)
        ),
        params=msgspec.Raw(msgspec.json.encode(params)),
    )  # fmt: skip
    with TemporaryDirectory() as place:
        measure_alone(benchmark, decoders.convert(params, benchmark.Params), Path(place))
        lines = Path(place, "measurements.0.jsonl").read_bytes().splitlines()
        values = tuple(decoders.decode(line, Measurement) for line in lines)
        verdict = judge_fleet(Run(folder=Path(place), record=record, measurements=values))
    return replace(decide(verdict, len(nodes)), run="")


def _follow() -> Gate:
    """Let the pod of index 0 test this node, and wait for its answer."""
    with Listener(("", tcp.PORT), authkey=os.environ[tcp.KEY].encode()) as listener:
        first = listener.accept()
        first.send_bytes(os.environ[NODE].encode())
        with listener.accept() as orders:
            tcp.obey(orders.fileno())
        return decoders.decode(first.recv_bytes(), Gate)


def main(request: str, host: str, count: str) -> int:
    """Prove the nodes of a Job's pods; write the answer where kubectl shows it."""
    gate, number = decoders.decode(request, KubernetesGate), int(os.environ["JOB_COMPLETION_INDEX"])
    _, within, wait = gate.figures()
    hosts = [host.format(number) for number in range(int(count))]
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, wait + (within if number else 0))
    try:
        answer = _follow() if number else _conduct(gate, hosts)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - it would exit as if BAD
        reason = str(error) or event_words("no_answer", hosts[0])
        late = Gate(verdict="UNDECIDED", code="not_ready", reason=reason)
        answer = with_words(late, _job(hosts))
    brief = replace(answer, bad=answer.bad[:NAMED], suspected=(), unproven=())
    MESSAGE.write_bytes(msgspec.json.encode(brief))
    sys.stdout.write(f"{answer.answer}\n")
    starts = gate.start_undecided and answer.verdict == "UNDECIDED"
    return 0 if starts else STATUS[answer.verdict]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
