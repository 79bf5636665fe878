"""The files of a lab's hosts: how each host starts, and where it differs from this machine."""

import contextlib
import os
import sys
from pathlib import Path

from cluster.core.state.files import load_script, state_folder, text_of

MASKED = ("/home", "/root", "/tmp", "/opt", "/srv", "/var/tmp")  # noqa: S108 - emptied, not used
VNI, GROUP = 1, "239.198.18.1"
FRAME = 14  # bytes of a packet's Ethernet header, which a queueing discipline counts
WIRE = 38  # bytes that each packet adds on a real line: preamble, header, checksum and gap
VXLAN = 50  # bytes that VXLAN over IPv4 adds to each packet
SMALLEST_BURST = 70_000  # bytes; with segmentation offload one packet is up to 64 KiB
BURST = 0.001  # seconds: the size of a burst, as time at the rate of the line
QUEUE = 0.020  # seconds: the length of the queue, as time at the rate of the line
SMALLEST_QUEUE = 200_000  # bytes

IDLE = "/etc/cluster-idle"  # the script that ends a host which nobody uses, if that was asked for
SLURM = "/etc/cluster-slurm"  # the script by which a host starts Slurm, where it has one


MOUNTS = load_script(__file__, "mount_layers.sh")
INIT = load_script(__file__, "init.sh", IDLE=IDLE, SLURM=SLURM, MOUNTS=MOUNTS)

SSHD_CONFIG = load_script(__file__, "sshd_config")


def private() -> list[str]:
    """List the folders of this machine that a host must not see."""
    checkout = Path(__file__).resolve().parents[3]
    folders = [state_folder()]
    folders += [checkout] if (checkout / "pyproject.toml").exists() else []
    folders += [Path(sys.prefix)] if sys.prefix != sys.base_prefix else []
    masks = [*map(Path, MASKED), *folders]
    paths = [path.resolve() for path in masks if path.is_dir()]
    return [str(path) for path in paths if not any(p in path.parents for p in paths)]


class Upper:
    """The upper (writable) layer of a host's overlay file system, before the host exists."""

    def __init__(self, folder: Path, lower: Path) -> None:
        self._folder = folder
        self._lower = lower

    def folder(self, path: str) -> Path:
        """Create a folder and its parents, each with the owner and mode of the lower layer."""
        place = self._folder
        _copy_attributes(place, self._lower)
        for part in Path(path).parts[1:]:
            place /= part
            if not place.is_dir():
                place.mkdir()
                _copy_attributes(place, self._lower / place.relative_to(self._folder))
        return place

    def empty(self, path: str) -> None:
        """Hide what a folder contains in the lower layer."""
        os.setxattr(self.folder(path), "trusted.overlay.opaque", b"y")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        target = self.folder(str(Path(path).parent)) / Path(path).name
        target.write_text(text)
        target.chmod(mode)

    def let_in(self, user: str) -> None:
        """Create a user who can log in with a key: sshd rejects locked accounts."""
        users = text_of(self._lower / "etc/passwd").splitlines()
        accounts = {line.split(":")[0]: line.split(":") for line in users}
        home = accounts[user][5] if user in accounts else f"/home/{user}"
        number = int(accounts[user][2]) if user in accounts else 2000
        if user not in accounts:
            users.append(f"{user}:x:{number}:{number}::{home}:/bin/bash")
            groups = text_of(self._lower / "etc/group")
            self.write("/etc/group", f"{groups}{user}:x:{number}:\n")
        shadow = text_of(self._lower / "etc/shadow").splitlines()
        rest = [line for line in shadow if line.split(":")[0] != user]
        self.write("/etc/passwd", "\n".join(users) + "\n")
        self.write("/etc/shadow", "\n".join([*rest, f"{user}:*:19000:0:99999:7:::"]) + "\n", 0o640)
        os.chown(self.folder(home), number, number)


def _copy_attributes(path: Path, model: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        attributes = model.stat()
        os.chown(path, attributes.st_uid, attributes.st_gid)
        path.chmod(attributes.st_mode & 0o7777)
        return
    path.chmod(0o755)


def links(outer: str, inner: str, prefix: int, mtu: int) -> str:
    """Return the batch for `ip -batch` that sets up the network inside a host.

    Without an overlay network, `inner` equals `outer`; the prefix is of both.
    """
    lines = ["link set dev lo up", f"addr add {outer}/{prefix} dev eth0", "link set dev eth0 up"]
    if inner != outer:
        lines += [
            f"link add dev vxlan0 type vxlan id {VNI} group {GROUP} dev eth0 dstport 4789",
            f"addr add {inner}/{prefix} dev vxlan0",
            f"link set dev vxlan0 mtu {mtu - VXLAN} up",
        ]
    return "\n".join(lines) + "\n"


def shape(device: str, line: float | None, mtu: int) -> str:
    """Return the batch for `tc -batch` that makes data pass as fast as on a real line.

    A queueing discipline counts a packet and its Ethernet header; a real line also carries a
    preamble, a checksum and a gap. The rate, in bytes per second, is lowered by the share of these
    in full packets.
    """
    if line is None:
        return f"qdisc replace dev {device} root noqueue\n"
    rate = line * (mtu + FRAME) / (mtu + WIRE)
    burst = max(SMALLEST_BURST, round(rate * BURST))
    limit = burst + max(SMALLEST_QUEUE, round(rate * QUEUE))
    tbf = f"tbf rate {round(rate * 8)}bit burst {burst} limit {limit}"
    return f"qdisc replace dev {device} root {tbf}\n"
