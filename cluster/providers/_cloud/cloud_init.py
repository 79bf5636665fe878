"""The cloud-config of a new host: what cloud-init does at its boot (cloudinit.readthedocs.io).

It is written as JSON, which is valid YAML: no YAML library is needed, and nothing is quoted twice.
"""

import math
from pathlib import Path
from typing import Any

import msgspec

from cluster.core import idle_watch
from cluster.core.model.spec import ClusterSpec
from cluster.core.ssh_keys import SshKeyPair

INSTALL_WITHIN = 180  # seconds within which a failed installation of packages is tried again
EVERY_BOOT = "/var/lib/cloud/scripts/per-boot/cluster-ttl"
IDLE_WATCH = "/usr/local/sbin/cluster-idle"


def user_data(
    spec: ClusterSpec, host_key: SshKeyPair, ttl: float, packages: tuple[str, ...] = ()
) -> str:
    """Return the user data of a host: its host key, and what ends it whatever happens here.

    The timer starts at each boot, so no clock has to be right; `ttl`, in seconds, is rounded up to
    minutes. Other users of a host can read its user data, so each host gets its own key right after
    the first connection.
    """
    minutes = max(1, math.ceil(ttl / 60))
    files, watch = [], ""
    if spec.idle is not None:
        text = Path(idle_watch.__file__).read_text()
        files = [{"path": IDLE_WATCH, "permissions": "0644", "content": text}]
        words = idle_watch.words(spec.idle, f".cluster-{spec.name}", "shutdown -P now")
        watch = f"setsid python3 {IDLE_WATCH} {words} < /dev/null > /dev/null 2>&1 &\n"
    end = f"#!/bin/sh\n{watch}exec shutdown -P +{minutes}\n"
    files.append({"path": EVERY_BOOT, "permissions": "0755", "content": end})
    config: dict[str, Any] = {
        # delete the host keys of the image, because other hosts have them, too
        "ssh_deletekeys": True,
        # types of host keys to generate; none, because `ssh_keys` has one
        "ssh_genkeytypes": [],
        # the first host key, which is known before the first connection
        "ssh_keys": {"ed25519_private": host_key.private, "ed25519_public": host_key.public},
        "write_files": files,
    }
    if packages:  # commands that run once the network is up, before sshd starts
        config["bootcmd"] = [_install(packages)]
    return "#cloud-config\n" + msgspec.json.encode(config).decode() + "\n"


def _install(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that installs packages at the first boot only.

    The `packages` of a cloud-config are installed after sshd has started, so they could be missing
    at the first login. A host may run before it has its public address, so the command retries for
    a while. It reads the uptime, because NTP may set the wall clock meanwhile.
    """
    script = (
        "export DEBIAN_FRONTEND=noninteractive; now() { cut -d. -f1 /proc/uptime; }; "
        f"end=$(($(now) + {INSTALL_WITHIN})); until apt-get -q update && "
        f"apt-get -q -y -o DPkg::Lock::Timeout=300 install {' '.join(packages)}; "
        'do [ "$(now)" -lt "$end" ] || exit 1; sleep 5; done'
    )
    return ("cloud-init-per", "once", "cluster-packages", "sh", "-c", script)
