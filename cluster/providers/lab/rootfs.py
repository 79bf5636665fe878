"""The files of the hosts of a lab: how each comes up, and what is different there from here."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from cluster.core import journal

MASKED = ("/home", "/root", "/tmp", "/opt", "/srv", "/var/tmp")  # noqa: S108 - emptied, not used
VNI, GROUP = 1, "239.198.18.1"
FRAME = 14  # bytes of a packet's Ethernet header: what a queueing discipline counts
WIRE = 38  # bytes that it takes on a real line: preamble, header, checksum and gap
VXLAN = 50  # bytes of each packet that VXLAN over IPv4 takes
SMALLEST_BURST = 70_000  # bytes: one packet may be 64 KiB until the very last moment
BURST = 0.001  # seconds of the rate that may pass at once
QUEUE = 0.020  # seconds of the rate that may wait
SMALLEST_QUEUE = 200_000  # bytes

# What makes the root file system of a host, from the layers in the folder where it is run.
MOUNTS = r"""
mount -t overlay overlay -o "lowerdir=$(cat ../../root),upperdir=upper,workdir=work" root
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --bind /dev dev
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=755 run run
mkdir run/sshd run/old
pivot_root . run/old
cd /
umount -l run/old
rmdir run/old
"""

# One file for all hosts and the switch; $1 is the cluster, $2 the number. Whoever starts it holds
# the other end of its standard input: should that process die, nothing stays half made.
INIT = rf"""#!/bin/sh
set -eu
echo "$2 made"
cd "${{0%/*}}"
if [ "$2" = switch ]; then exec sleep infinity < /dev/null > /dev/null 2>&1; fi
cd "hosts/$2"
trap 'echo "$2 failed"' EXIT
exec 2> log
cat > /dev/null
[ -e ../../linked ]
echo "$1-$2" > /proc/sys/kernel/hostname
ip -batch links
tc -batch shape{MOUNTS}/usr/sbin/sshd -t -f /etc/ssh/cluster_config
trap - EXIT
echo "$2 up"
exec /usr/sbin/sshd -D -e -f /etc/ssh/cluster_config < /dev/null > /var/log/cluster-sshd.log 2>&1
"""

SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/cluster_host_key
AuthorizedKeysFile /etc/ssh/cluster_authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
MaxStartups 1000
MaxSessions 1000
Subsystem sftp internal-sftp
"""


def private() -> list[str]:
    """Give the folders of this machine that a host must not see.

    Returns:
        Absolute paths, none below another.

    """
    checkout = Path(__file__).resolve().parents[3]
    own = [journal.root()]
    own += [checkout] if (checkout / "pyproject.toml").exists() else []
    own += [Path(sys.prefix)] if sys.prefix != sys.base_prefix else []
    given = [*map(Path, MASKED), *own]
    existing = [path.resolve() for path in given if path.is_dir()]
    return [str(path) for path in existing if not any(p in path.parents for p in existing)]


class Upper:
    """The writable layer of a host, before the host exists.

    Args:
        folder: of the layer.
        lower: the root file system below it.

    """

    def __init__(self, folder: Path, lower: Path) -> None:
        """Begin with an empty one."""
        self._folder = folder
        self._lower = lower

    def folder(self, path: str) -> Path:
        """Make a folder and those above it, each with the owner and mode that it has below."""
        here = self._folder
        _alike(here, self._lower)
        for part in Path(path).parts[1:]:
            here /= part
            if not here.is_dir():
                here.mkdir()
                _alike(here, self._lower / here.relative_to(self._folder))
        return here

    def empty(self, path: str) -> None:
        """Hide what a folder holds below."""
        os.setxattr(self.folder(path), "trusted.overlay.opaque", b"y")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file."""
        target = self.folder(str(Path(path).parent)) / Path(path).name
        target.write_text(text)
        target.chmod(mode)

    def let_in(self, user: str) -> None:
        """Make a user who can log in with a key: sshd turns locked accounts away."""
        users = text_of(self._lower / "etc/passwd").splitlines()
        known = {line.split(":")[0]: line.split(":") for line in users}
        home = known[user][5] if user in known else f"/home/{user}"
        number = int(known[user][2]) if user in known else 2000
        if user not in known:
            users.append(f"{user}:x:{number}:{number}::{home}:/bin/bash")
            groups = text_of(self._lower / "etc/group")
            self.write("/etc/group", f"{groups}{user}:x:{number}:\n")
        shadow = text_of(self._lower / "etc/shadow").splitlines()
        others = [line for line in shadow if line.split(":")[0] != user]
        self.write("/etc/passwd", "\n".join(users) + "\n")
        self.write(
            "/etc/shadow", "\n".join([*others, f"{user}:*:19000:0:99999:7:::"]) + "\n", 0o640
        )
        os.chown(self.folder(home), number, number)


def _alike(path: Path, model: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        like = model.stat()
        os.chown(path, like.st_uid, like.st_gid)
        path.chmod(like.st_mode & 0o7777)
        return
    path.chmod(0o755)


def text_of(path: Path) -> str:
    """Read a file.

    Args:
        path: of the file.

    Returns:
        Its text; empty if there is none.

    """
    try:
        return path.read_text()
    except OSError:
        return ""


def links(outer: str, inner: str, prefix: int, mtu: int) -> str:
    """Give what ip is told inside a host.

    Args:
        outer: address on the wire.
        inner: address in the overlay network; the same, if there is none.
        prefix: bits of both that name their networks.
        mtu: of the wire, in bytes.

    Returns:
        A batch.

    """
    lines = [
        "link set dev lo up",
        f"addr add {outer}/{prefix} dev eth0",
        "link set dev eth0 up",
    ]
    if inner != outer:
        lines += [
            f"link add dev vxlan0 type vxlan id {VNI} group {GROUP} dev eth0 dstport 4789",
            f"addr add {inner}/{prefix} dev vxlan0",
            f"link set dev vxlan0 mtu {mtu - VXLAN} up",
        ]
    return "\n".join(lines) + "\n"


def shape(device: str, line: float | None, mtu: int) -> str:
    """Give what tc is told, so that data passes as fast as on a real line of a rate.

    A queueing discipline counts a packet and its Ethernet header; a line carries a preamble, a
    checksum and a gap as well. The rate is lowered by what full packets lack.

    Args:
        device: the network interface.
        line: rate of the line in bytes per second; as fast as it can, if none.
        mtu: of the device, in bytes.

    Returns:
        A batch of one line.

    """
    if line is None:
        return f"qdisc replace dev {device} root noqueue\n"
    rate = line * (mtu + FRAME) / (mtu + WIRE)
    burst = max(SMALLEST_BURST, round(rate * BURST))
    limit = burst + max(SMALLEST_QUEUE, round(rate * QUEUE))
    tbf = f"tbf rate {round(rate * 8)}bit burst {burst} limit {limit}"
    return f"qdisc replace dev {device} root {tbf}\n"
