"""What a new host does as it comes up, as cloud-init reads it (cloudinit.readthedocs.io).

JSON is YAML, so nothing needs a YAML writer, and nothing has to be quoted twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cluster.core.ssh_keys import SshKeyPair

INSTALL_WITHIN = 180  # seconds in which the installation of packages is tried again
EVERY_BOOT = "/var/lib/cloud/scripts/per-boot/cluster-ttl"


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file that cloud-init writes at the first boot."""

    path: str
    permissions: str
    content: str


class CloudConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a cloud-config that we use.

    Args:
        ssh_deletekeys: host keys that came with the image go: other hosts have them, too.
        ssh_genkeytypes: host keys to make there; none, because one is given.
        ssh_keys: the host key that we know the host by at first.
        write_files: files.
        bootcmd: commands that run before sshd is started, once the network is there.

    """

    ssh_deletekeys: bool = True
    ssh_genkeytypes: tuple[str, ...] = ()
    ssh_keys: dict[str, str]
    write_files: tuple[File, ...]
    bootcmd: tuple[tuple[str, ...], ...] | msgspec.UnsetType = msgspec.UNSET


def user_data(host_key: SshKeyPair, ttl: float, packages: tuple[str, ...] = ()) -> str:
    """Give what a host is told: which host key it has, and when it ends whatever happens here.

    The span counts from each boot, so that no clock has to be right.

    Args:
        host_key: the same for all hosts of a launch; each gets its own as soon as we are connected,
            because others on the host can read what it was told.
        ttl: seconds from its boot to its end.
        packages: of Debian or Ubuntu, to install before anybody can log in.

    Returns:
        A cloud-config.

    """
    minutes = max(1, math.ceil(ttl / 60))
    end = File(
        path=EVERY_BOOT, permissions="0755", content=f"#!/bin/sh\nexec shutdown -P +{minutes}\n"
    )
    config = CloudConfig(
        ssh_keys={"ed25519_private": host_key.private, "ed25519_public": host_key.public},
        write_files=(end,),
        bootcmd=(_install(packages),) if packages else msgspec.UNSET,
    )
    return "#cloud-config\n" + msgspec.json.encode(config).decode() + "\n"


def _install(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Give the command that installs packages at the first boot only.

    The `packages` of a cloud-config come after sshd has started, where we would not find them yet.
    A host may run before it has its public address, so the command tries again for a while; the
    clock that it reads is that of the kernel, because NTP may set the other one meanwhile.
    """
    script = (
        "export DEBIAN_FRONTEND=noninteractive; now() { cut -d. -f1 /proc/uptime; }; "
        f"end=$(($(now) + {INSTALL_WITHIN})); until apt-get -q update && "
        f"apt-get -q -y -o DPkg::Lock::Timeout=300 install {' '.join(packages)}; "
        'do [ "$(now)" -lt "$end" ] || exit 1; sleep 5; done'
    )
    return ("cloud-init-per", "once", "cluster-packages", "sh", "-c", script)
