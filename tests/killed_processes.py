"""Processes that are killed: launches and teardowns outside of the process that tests.

They come from a server that has imported everything, so each begins at once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from typing import TYPE_CHECKING

from cluster.orchestration.cluster import attach
from cluster.orchestration.launch import launch_spec
from cluster.providers.aws.api import service_models
from tests.fork_server import spare_the_collector
from tests.replacements import killed, replace_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.process import BaseProcess

    from cluster.core.model.spec import ClusterSpec

WITHIN = 120.0  # seconds for a process to end: a guard against hanging, not a measured time

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
def begun(what: Callable[..., None], *args: object) -> Iterator[BaseProcess]:
    """Let a process do something; it does not outlive the block."""
    process = _context.Process(target=_in, args=(dict(os.environ), what, *args))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def status(what: Callable[..., None], *args: object) -> int | None:
    """Let a process do something, and give its exit status; a signal's is negative."""
    with begun(what, *args) as process:
        process.join(WITHIN)
        return process.exitcode


def launch(spec: ClusterSpec) -> None:
    """Launch a cluster."""
    launch_spec(spec)


def down(name: str) -> None:
    """Take a cluster down."""
    attach(name).down(reachable=False)


def replace(name: str) -> None:
    """Replace the last host of a cluster."""
    replace_host(name)


def replace_until_tests(name: str) -> None:
    """Replace the last host of a cluster, and die as soon as the new one is tested."""
    replace_host(name, killed)


def _in(environ: dict[str, str], what: Callable[..., None], *args: object) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it says as it dies is nobody's business
    what(*args)
