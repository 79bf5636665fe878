"""Processes that are killed: launches and teardowns outside of the process that tests.

They come from a server that has imported everything, so each begins at once.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal, ssh_keys
from cluster.core.state.journal import Answered, Created, Entry, Journal, LaunchFinished, Requested
from cluster.orchestration.cluster import attach
from cluster.orchestration.launch.launch import launch_spec
from cluster.orchestration.launch.orphans import remove
from cluster.providers.aws.api import service_models
from cluster.remote.network import host_keys
from cluster.remote.shell import Shell
from tests.clouds import hurry
from tests.fork_server import spare_the_collector
from tests.orphans import find_orphans
from tests.replacements import killed, replace_host

WITHIN = 240.0  # seconds for a process to end: a guard against hanging, not a measured time

for _model in ("ec2", "sts"):
    service_models().load_service_model(_model, "service-2")
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("cluster.providers.aws", "boto3"),
        *("cluster.providers.gcp", "google.cloud.compute_v1"),
        "tests.killed_processes",
    ]
)
spare_the_collector()


@contextlib.contextmanager
def begun(function: Callable[..., None], *args: object) -> Iterator[BaseProcess]:
    """Let a process do something; it does not outlive the block."""
    process = _context.Process(target=_in, args=(dict(os.environ), function, *args))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def status(function: Callable[..., None], *args: object) -> int | None:
    """Let a process do something, and give its exit status; a signal's is negative."""
    with begun(function, *args) as process:
        process.join(WITHIN)
        return process.exitcode


def launch(spec: ClusterSpec) -> None:
    launch_spec(spec)


class Steps:
    """Steps of a process, which dies at the first that is not in a file yet, and enters it."""

    def __init__(self, reached: Path) -> None:
        self._reached = reached
        self._lock = threading.Lock()

    def around(self, do: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """Make the beginning and the end of a call a step each; without a name they are none."""

        def stepped(*args: Any, **named: Any) -> Any:
            step = name(*args)
            self._reach(step and f"before {step}")
            answer = do(*args, **named)
            self._reach(step and f"after {step}")
            return answer

        return stepped

    def _reach(self, step: str) -> None:
        with self._lock:
            if step and step not in self._reached.read_text().splitlines():
                with self._reached.open("a") as file:
                    file.write(f"{step}\n")
                os.kill(os.getpid(), signal.SIGKILL)


def launch_to_a_new_step(spec: ClusterSpec, reached: Path) -> None:
    """Launch a cluster, and die around a record, a command for a host key, or a write of pins."""
    steps = Steps(reached)

    def pins(_: Path, hosts: Sequence[tuple[str, str]]) -> str:
        return f"{len(set(hosts))} pins of {len({public for _, public in hosts})} keys"

    def command(shell: Shell, script: str) -> str:
        assert shell.machine
        return f"{'use' if script == host_keys.USE else 'make'} {shell.machine.name}"

    def record(_: Journal, entry: Entry) -> str:
        return type(entry).__name__ if isinstance(entry, Created | LaunchFinished) else ""

    with (
        patch.object(Journal, "append", steps.around(Journal.append, record)),
        patch.object(host_keys, "_as_root", steps.around(host_keys._as_root, command)),
        patch.object(ssh_keys, "write_known_hosts", steps.around(ssh_keys.write_known_hosts, pins)),
    ):
        launch_spec(spec)


def launch_to_a_new_entry(spec: ClusterSpec, reached: Path) -> None:
    """Launch a cluster, and die around an entry of its journal that says what was created."""
    steps = Steps(reached)

    def entry_name(book: Journal, entry: Entry) -> str:
        if not isinstance(entry, Requested | Answered | Created):
            return ""
        kind = type(entry).__name__
        return f"{kind} {sum(isinstance(e, type(entry)) for e in book.entries()) + 1}"

    with patch.object(Journal, "append", steps.around(Journal.append, entry_name)):
        launch_spec(spec)


WAYS = ("down", "gc", "gc without a journal")


def clear(way: str, name: str = "mine") -> None:
    """Do what `cluster down` or `cluster more gc -y` does; what is down already stays so."""
    if way == "gc without a journal":
        journal.for_cluster(name).forget()
    if way == "down":
        if journal.for_cluster(name).entries():
            attach(name).down(reachable=False)
        return
    for orphan in find_orphans():
        remove(orphan)


def down(name: str) -> None:
    attach(name).down(reachable=False)


def replace(name: str) -> None:
    """Replace the last host of a cluster."""
    replace_host(name)


def replace_until_tests(name: str) -> None:
    """Replace the last host of a cluster, and die as soon as the new one is tested."""
    replace_host(name, killed)


def _in(environ: dict[str, str], function: Callable[..., None], *args: object) -> None:
    os.environ.clear()
    os.environ.update(environ)
    hurry()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it says as it dies is nobody's business
    function(*args)
