"""Agents that are reached over TCP, where no host can start programs on another one.

Both ends prove by HMAC that they know a key, which is in their environment.
"""

import os
import subprocess
import sys
import time
from multiprocessing.connection import Client, Connection
from threading import Thread

PORT, KEY = 7473, "CLUSTER_GATE_KEY"
POLL = 0.5  # seconds between two tries


def connect(host: str) -> Connection:
    """Connect to a host as soon as it listens; its name may not be known before."""
    while True:
        try:
            return Client((host, PORT), authkey=os.environ[KEY].encode())
        except OSError:
            time.sleep(POLL)


def obey(orders: int) -> None:
    """Run an agent that has its orders from a connection."""
    words = (sys.executable, "-P", "-m", "cluster.measure.pairs.host_agent")
    subprocess.run(words, stdin=orders, stdout=orders, check=False)


def _copy(source: int, target: int) -> None:
    while data := os.read(source, 1 << 16):
        os.write(target, data)
    os._exit(0)


if __name__ == "__main__":
    connection = connect(sys.argv[1])
    Thread(target=_copy, args=(0, connection.fileno()), daemon=True).start()
    _copy(connection.fileno(), 1)
