"""The files of a host: how it comes up, obeys its user data, and shuts itself down."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from cluster.providers.lab.rootfs import MOUNTS

if TYPE_CHECKING:
    from cluster.providers.lab.rootfs import Upper
    from tests.fakes.hosts import HostSettings
    from tests.fakes.userdata import Orders

USER = "ubuntu"
STATE = "/var/lib/cloud/instance"

FILES = Path(__file__).with_name("host_files")
BOOT = (FILES / "boot").read_text().replace("@MOUNTS@", MOUNTS)


def host_key() -> tuple[str, str]:
    """Return a new key, private and public."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} root@host"


def fill(upper: Upper, settings: HostSettings, name: str) -> None:
    """Write what is different on a host from this machine."""
    orders = settings.orders
    upper.let_in(settings.user)
    upper.empty("/etc/ssh")
    upper.write("/etc/ssh/sshd_config", (FILES / "sshd_config").read_text())
    keys = dict(orders.keys) or {"ed25519": host_key()}
    for kind, (private, public) in keys.items():
        upper.write(f"/etc/ssh/ssh_host_{kind}_key", private.rstrip("\n") + "\n", 0o600)
        upper.write(f"/etc/ssh/ssh_host_{kind}_key.pub", public.rstrip("\n") + "\n")
    upper.write("/etc/hostname", f"{name}\n")
    upper.write("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{settings.address} {name}\n")
    upper.write("/etc/resolv.conf", "# no name server\n")
    upper.write(f"{STATE}/early", orders.early)
    upper.write(f"{STATE}/late", orders.late)
    upper.write(f"{STATE}/said", _console_words(orders, [public for _, public in keys.values()]))
    _log_in(upper, settings.user, [*settings.keys, *orders.authorized])
    for file in orders.files:
        upper.write(file.path, file.text, file.mode)


def _console_words(orders: Orders, public: list[str]) -> str:
    """Return what cloud-init says on the console of the host's keys."""
    trouble = f"cc: WARNING {orders.trouble}\n" if orders.trouble else ""
    prints = "".join(f"ec2: {_fingerprint(key)}\n" for key in public if key)
    keys = "".join(f"{key.strip()}\n" for key in public)
    return (
        f"{trouble}"
        "ec2: #############################################################\n"
        "ec2: -----BEGIN SSH HOST KEY FINGERPRINTS-----\n"
        f"{prints}"
        "ec2: -----END SSH HOST KEY FINGERPRINTS-----\n"
        "ec2: #############################################################\n"
        "-----BEGIN SSH HOST KEY KEYS-----\n"
        f"{keys}"
        "-----END SSH HOST KEY KEYS-----\n"
    )


def _fingerprint(key: str) -> str:
    kind, data, *comment = key.split()
    digest = hashlib.sha256(base64.b64decode(data)).digest()
    text = base64.b64encode(digest).decode().rstrip("=")
    return f"256 SHA256:{text} {' '.join(comment)} ({kind.removeprefix('ssh-').upper()})"


def _log_in(upper: Upper, user: str, keys: list[str]) -> None:
    path = f"/home/{user}/.ssh/authorized_keys"
    upper.write(path, "".join(f"{key.strip()}\n" for key in keys), 0o600)
    owner = upper.folder(f"/home/{user}").stat()
    folder = upper.folder(f"/home/{user}/.ssh")
    for target in (folder, folder / "authorized_keys"):
        os.chown(target, owner.st_uid, owner.st_gid)
    folder.chmod(0o700)


def programs(upper: Upper, minute: float) -> None:
    """Write the programs that stand for what a booted system has."""
    upper.write("/etc/test-cloud-minute", f"{minute}\n")
    for path, file in {
        "/usr/bin/sudo": "sudo",
        "/usr/bin/systemctl": "systemctl",
        "/usr/sbin/poweroff": "poweroff",
        "/usr/sbin/halt": "poweroff",
        "/usr/sbin/shutdown": "shutdown",
    }.items():
        upper.write(path, (FILES / file).read_text(), 0o755)
    as_root = upper.folder("/usr/libexec/test-cloud") / "as-root"
    shutil.copyfile(str(shutil.which("setpriv")), as_root)
    as_root.chmod(0o4755)
