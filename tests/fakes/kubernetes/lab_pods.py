"""Pods in the namespaces of hosts of a lab: their network is its overlay, or that of the node."""

import contextlib
import ctypes
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import ProvisionError
from cluster.core.model.hosts import Machine
from cluster.providers.lab.network import PREFIX, inside
from cluster.providers.lab.processes import processes_of
from cluster.providers.lab.rootfs import GROUP, VNI
from tests.conftest import until
from tests.fakes.kubernetes.cluster import IMAGE, Kubernetes
from tests.fakes.kubernetes.pods import Entry, FolderPods, Image, variables
from tests.fakes.kubernetes.store import Object

USER = 2000  # as a lab numbers the user that it makes
NAMES = "/run/pod-names"  # on each node: /etc/hosts of pods
INIT = Path(__file__).with_name("pod_init").read_text()
INIT = INIT.replace("@USER@", str(USER)).replace("@NAMES@", NAMES)

OPEN_TREE, MOVE_MOUNT = 428, 429  # system calls, which glibc 2.36 has and Python has not
HERE, CLONE, CLOSE_ON_EXEC, BY_FILE = -100, 1, 0x80000, 4
ATTACH = f"""
import ctypes, sys
call = ctypes.CDLL(None).syscall
sys.exit(call({MOVE_MOUNT}, int(sys.argv[1]), b"", {HERE}, b"/mnt", {BY_FILE}) != 0)
"""


class LabPods(FolderPods):
    """Pods on hosts of a lab, each of which is the node of its name."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        super().__init__()
        self._machines = {machine.id: machine for machine in machines}
        self._holders = {p.number: p.pid for p in processes_of(machines[0].name.split(".")[2])}
        self._inits: dict[str, int] = {}

    def nodes(self) -> list[str]:
        return list(self._machines)

    def address(self, pod: Object, node: Object) -> str:
        """Return the address of a pod: its own, or that of its node."""
        machine = self._machines[node["metadata"]["name"]]
        if pod["spec"].get("hostNetwork") and machine.access:
            return machine.access.host
        return machine.address

    def _node_process(self, node: Object) -> int:
        """Return the first process of a node."""
        holder = self._holders[node["metadata"]["name"].rpartition("-")[2]]
        return int(Path(f"/proc/{holder}/task/{holder}/children").read_text().split()[0])

    def sent(self, node: str) -> int:
        """Return the bytes that a node has sent on its link, also those of its pods."""
        pid = self._node_process({"metadata": {"name": node}})
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
        [line] = [line for line in lines if line.strip().startswith("eth0:")]
        return int(line.split()[9])

    def start(self, pod: Object, node: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._running:
            return
        env, init = variables(pod), self._node_process(node)
        shared = pod["spec"].get("hostNetwork")
        net = [] if shared else ["--net"]
        command = pod["spec"]["containers"][0]["command"]
        before = shlex.join(_before(pod))
        self._names_of(node).touch()
        process = subprocess.Popen(
            [
                *("nsenter", "--target", str(init), "--all"),
                *("unshare", "--mount", "--pid", "--uts", "--ipc", *net, "--fork", "--kill-child"),
                *("--mount-proc", "sh", "-c", INIT, "sh", env["HOME"]),
                *(pod["spec"]["hostname"], before, f"/run/{uid}", *command),
            ],
            stdin=subprocess.PIPE,
            stdout=(log := self.log(pod).open("wb")),
            stderr=log,
            env=env,
            start_new_session=True,
        )
        log.close()
        self._running[uid] = process
        self._inits[uid] = until(lambda: _init_below(process.pid), "the pod has its first process")
        image = self.images[pod["spec"]["containers"][0]["image"]]
        if image.folder is not None:
            _show(image.folder, self._inits[uid])
        if not shared:
            self._connect(init, self._inits[uid], self.address(pod, node))
        if process.stdin:
            process.stdin.close()

    def initialized(self, pod: Object) -> tuple[int, str] | None:
        folder = self._names_of({"metadata": {"name": pod["spec"]["nodeName"]}}).parent
        code, message = (folder / f"{pod['metadata']['uid']}{end}" for end in ("", ".message"))
        text = code.read_text() if code.exists() else ""
        return (int(text), message.read_text()) if text else None

    def resolve(self, names: Mapping[str, str]) -> None:
        lines = "".join(f"{address} {name}\n" for name, address in names.items())
        for name in self._machines if names else ():
            self._names_of({"metadata": {"name": name}}).write_text(lines)

    def _names_of(self, node: Object) -> Path:
        return Path(f"/proc/{self._node_process(node)}/root{NAMES}")

    def _connect(self, node: int, pod: int, address: str) -> None:
        """Create a pod's device of the overlay, whose packets go over the link of its node."""
        with contextlib.suppress(Exception):
            inside(node, "ip", "link del vxlan0\n")
        device = f"type vxlan id {VNI} group {GROUP} dev eth0 dstport 4789"
        batch = f"link add dev vxlan0 {device}\nlink set vxlan0 netns {pod}\n"
        until(lambda: _is_possible(node, batch), "the device of the pod before is gone")
        lines = ["link set dev lo up", f"addr add {address}/{PREFIX} dev vxlan0"]
        inside(pod, "ip", "\n".join([*lines, "link set dev vxlan0 mtu 1450 up"]) + "\n")

    def entry(self, pod: Object) -> Entry:
        enter = ("nsenter", "--target", str(self._inits[pod["metadata"]["uid"]]), "--all")
        user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        return Entry((*enter, *user), variables(pod))

    def close(self) -> None:
        """Forget what is left."""
        shutil.rmtree(self.folder)


def _is_possible(node: int, batch: str) -> bool:
    """Tell whether `ip` did what it was to do: the kernel ends a pod's devices after the pod."""
    with contextlib.suppress(ProvisionError):
        inside(node, "ip", batch)
        return True
    return False


def _before(pod: Object) -> list[str]:
    """Return the words of the container before the others; none if there is none."""
    before = pod["spec"].get("initContainers") or ()
    if not before:
        return []
    [container] = before
    return ["env", *(f"{v['name']}={v['value']}" for v in container["env"]), *container["command"]]


def _show(folder: Path, pod: int) -> None:
    """Mount a folder of this machine in a pod, to whose root file system it is hidden."""
    call = ctypes.CDLL(None).syscall
    tree = call(OPEN_TREE, HERE, str(folder).encode(), CLONE | CLOSE_ON_EXEC)
    words = ("nsenter", "--target", str(pod), "--mount", "python3", "-c", ATTACH, str(tree))
    try:
        subprocess.run(words, pass_fds=[tree], check=True)
    finally:
        os.close(tree)


def _init_below(pid: int) -> int:
    """Find the first process of a pod below the one that starts it; 0 while there is none."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            status = Path(f"/proc/{child}/status").read_text()
            numbers = next(line for line in status.splitlines() if line.startswith("NSpid"))
            if numbers.split()[-1] == "1":  # in the innermost of its namespaces
                return int(child)
            if init := _init_below(int(child)):
                return init
    return 0


def nodes_of_pods(
    monkeypatch: pytest.MonkeyPatch, hosts: int, **options: str
) -> Iterator[Kubernetes]:
    """A cluster whose nodes are hosts of a lab with an overlay network."""
    options = {"overlay": "vxlan", "user": "pods", **options}
    nodes = cluster.launch("nodes", provider="lab", hosts=hosts, options=options)
    runtime = LabPods(nodes.machines)
    with Kubernetes(runtime) as kubernetes:
        kubernetes.kubelets.images[IMAGE] = Image(user=USER)
        for name in runtime.nodes():
            kubernetes.add_node(name)
        monkeypatch.setenv("KUBECONFIG", str(kubernetes.settings()))
        yield kubernetes
        assert not kubernetes.gaps
        assert kubernetes.things() == []
    nodes.down()
