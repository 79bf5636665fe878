"""What AWS takes, on the test cloud: calls, and seconds; `scripts/bench` shows it.

    python -m tests.fakes.aws.launch_cost calls 2 64 1000
    python -m tests.fakes.aws.launch_cost hosts 16

Each prints one line of JSON.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from cluster.core import plugins
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec
from cluster.providers import Provider
from tests.fakes.aws import Cloud, Settings

BOOT = 10.0  # seconds that a host takes besides what it really takes; a real one takes longer
WITHIN = 120.0  # seconds for a host to answer


def spec(hosts: int) -> ClusterSpec:
    return ClusterSpec(
        name="timing", provider="aws", instance="c5.18xlarge", placement=True, hosts=hosts
    )


def calls(hosts: int) -> dict[str, int]:
    """Count the calls that change something."""
    with Cloud() as cloud:
        os.environ.update(cloud.environ)
        cluster_spec, provider = spec(hosts), plugins.load(Provider, "aws")
        provider.plan(cluster_spec)
        book = journal.for_cluster("timing")
        book.append(journal.Intended(spec=cluster_spec, at=time.time()))
        provider.create(cluster_spec, book)
        launched = len(cloud.mutating())
        provider.destroy("timing")
        book.forget()
        return {"launch": launched, "teardown": len(cloud.mutating()) - launched}


def hosts(count: int) -> dict[str, float]:
    """Time from when there are instances until each host answers, and until all are ours."""
    with Cloud(hosts=True, settings=Settings(boot=BOOT)) as cloud:
        os.environ.update(cloud.environ)
        watch = Watch(cloud, count)
        cluster = launch_spec(spec(count), watch.on_state)
        watch.thread.join()
        start = time.monotonic()
        cluster.down()
        down = time.monotonic() - start
        return {"boot": watch.booted, "ready": watch.ready, "down": down}


class Watch:
    """Looks at the hosts as they come up, beside those who launch."""

    def __init__(self, cloud: Cloud, count: int) -> None:
        self._cloud = cloud
        self._count = count
        self._began = 0.0
        self._times: dict[str, float] = {}
        self.booted = 0.0
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    @property
    def ready(self) -> float:
        """Seconds until each could be logged into."""
        return max(self._times.values()) - self._began

    def on_state(self, host: str, state: str) -> None:
        if state == "ready":
            self._times.setdefault(host, time.monotonic())

    def _watch(self) -> None:
        while len(addresses := list(self._addresses())) < self._count:
            time.sleep(0.01)
        self._began = time.monotonic()
        threads = [threading.Thread(target=_until_ssh, args=(a,)) for a in addresses]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.booted = time.monotonic() - self._began

    def _addresses(self) -> Iterator[str]:
        with self._cloud.lock:
            lives = list(self._cloud.region("us-east-1").lives.values())
        for life in lives:
            address: Any = life.instance.public_ip
            if address and life.instance.instance_type == "c5.18xlarge":
                yield str(address)


def _until_ssh(address: str) -> None:
    """Wait until an sshd speaks there."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address, 22), timeout=1.0) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.05)


def main() -> None:
    kind, *numbers = sys.argv[1:]
    do = {"calls": calls, "hosts": hosts}[kind]
    sys.stdout.write(json.dumps({number: do(int(number)) for number in numbers}) + "\n")


if __name__ == "__main__":
    main()
