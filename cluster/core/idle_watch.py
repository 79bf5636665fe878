"""Ends a host once no host of its cluster was used for a while; runs as root from its boot on.

This file alone is sent to hosts, for whatever Python 3 they have: it imports nothing of ours. A
host is in use while a job of ours runs there, an SSH session is open, or somebody is attached to
tmux. It says so to the others, whose addresses the launch has left in `PEERS`: they wait, too.

Its arguments are the seconds, those until the first use, our folder in a home, and the command that
ends the host.
"""

import os
import pwd
import re
import socket
import sys
import time
from pathlib import Path

PORT = 7761  # of UDP
PEERS = "peers"  # the file in our folder with an address on each line
FIRST = 600.0  # seconds within which the launch has to connect to a host
LONGEST = 10.0  # seconds between two looks
LOOKS = 10  # in the time after which a host ends: some of what it says to others may be lost
SESSION = re.compile(rb"sshd(-session)?: [^ \0]+@")  # of a user who has logged in
AGENT, TASK = b"cluster.agent", b"CLUSTER_TASK="  # in the words and variables of processes of jobs
# Seconds until the kernel looks whether the client of a silent session is still there, seconds
# between two looks, and how many fail before it ends the session.
KEEPALIVE = {"time": 60, "intvl": 15, "probes": 5}


def words(idle: float, folder: str, end: str) -> str:
    """Return the arguments with which a host runs this file."""
    return f"{idle:g} {max(idle, FIRST):g} {folder} {end}"


def is_used(process: Path) -> bool:
    """Tell whether a process shows that its host is in use."""
    try:
        if (process / "comm").read_bytes().startswith(b"tmux: client"):
            return True
        line = (process / "cmdline").read_bytes()
        return bool(
            AGENT in line or SESSION.match(line) or TASK in (process / "environ").read_bytes()
        )
    except OSError:  # it has ended
        return False


def peers(folder: str) -> set[str]:
    files = [Path(user.pw_dir, folder, PEERS) for user in pwd.getpwall()]
    return {word for file in files if file.is_file() for word in file.read_text().split()}


def watch(idle: float, first: float, folder: str) -> None:
    """Return once no host was in use for some time."""
    end = time.monotonic() + first
    message = folder.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.bind(("", PORT))
        while (now := time.monotonic()) < end:
            if any(map(is_used, Path("/proc").glob("[0-9]*"))):
                end = now + idle
                for address in peers(folder):
                    try:
                        link.sendto(message, (address, PORT))
                    except OSError:  # it has ended, or has no route now
                        continue
            look = now + min(LONGEST, idle / LOOKS)
            while (remaining := look - time.monotonic()) > 0:
                link.settimeout(remaining)
                try:
                    if link.recv(len(message) + 1) == message:
                        end = time.monotonic() + idle
                except OSError:  # nothing came
                    continue


def main(idle: str, first: str, folder: str, *end: str) -> None:
    for name, value in KEEPALIVE.items():
        Path(f"/proc/sys/net/ipv4/tcp_keepalive_{name}").write_text(str(value))
    watch(float(idle), float(first), folder)
    os.execvp(end[0], end)  # noqa: S606 - no shell is needed


if __name__ == "__main__":
    main(*sys.argv[1:])
