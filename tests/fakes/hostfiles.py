"""The files of a host: how it comes up, obeys its user data, and shuts itself down."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
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
    from tests.fakes.hosts import Wanted
    from tests.fakes.userdata import Orders

USER = "ubuntu"
STATE = "/var/lib/cloud/instance"

# $1 is the instance. Whoever starts it holds the other end of its standard input, and says when its
# network is there; should that process die, the host ends.
BOOT = rf"""#!/bin/sh
set -eu
cd "${{0%/*}}/hosts/$1"
exec >> console 2>&1
read -r word
exec 3<&0 < /dev/null
cat hostname > /proc/sys/kernel/hostname
ip -batch links
tc -batch shape
sleep "$(cat boot)"
login=$(cat login)
{MOUNTS}
sh {STATE}/early 3<&- || echo "cc: WARNING bootcmd failed: $?"
[ "$login" = 0 ] || for file in /home/*/.ssh/authorized_keys; do mv "$file" "$file.late"; done
/usr/sbin/sshd -t
/usr/sbin/sshd
{{
  cat {STATE}/said
  if [ "$login" != 0 ]; then
    sleep "$login"
    for file in /home/*/.ssh/authorized_keys.late; do mv "$file" "${{file%.late}}"; done
  fi
  if [ ! -e {STATE}/done ]; then
    : > {STATE}/done
    sh {STATE}/late || echo "cc: WARNING runcmd failed: $?"
  fi
  for script in /var/lib/cloud/scripts/per-boot/*; do
    [ ! -x "$script" ] || "$script" || echo "cc: WARNING $script failed: $?"
  done
  echo "Cloud-init finished"
}} 3<&- &
trap 'echo "reboot: Power down"; exit 0' TERM
cat <&3 > /dev/null &
wait $!
"""

SSHD_CONFIG = """\
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile /run/sshd.pid
PrintMotd no
PrintLastLog no
MaxStartups 1000
MaxSessions 1000
Subsystem sftp internal-sftp
"""

SUDO = """#!/bin/sh
while :; do
  case ${1-} in
    -n | -E | -H) shift ;;
    -u) [ "$2" = root ] || exit 1; shift 2 ;;
    --) shift; break ;;
    -*) echo "sudo: the test cloud does not know $1" >&2; exit 1 ;;
    *) break ;;
  esac
done
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec /usr/libexec/test-cloud/as-root --reuid=0 --regid=0 --clear-groups -- \\
  env HOME=/root USER=root LOGNAME=root "PATH=$path" "$@"
"""

# Process 1 has a trap for SIGTERM; a minute takes as long as the test says.
SHUTDOWN = """#!/bin/sh
[ "$(id -u)" = 0 ] || { echo "Must be root." >&2; exit 1; }
when=+1
for word; do
  case $word in
    -c) kill "$(cat /run/shutdown.pid)" && rm /run/shutdown.pid; exit ;;
    -P | -h | -H | --poweroff | --halt) ;;
    -*) echo "shutdown: the test cloud does not know $word" >&2; exit 1 ;;
    *) when=$word; break ;;
  esac
done
case $when in
  now) when=0 ;;
  +*) when=${when#+} ;;
  *) echo "shutdown: the test cloud does not know $when" >&2; exit 1 ;;
esac
minute=$(cat /etc/test-cloud-minute)
seconds=$(awk "BEGIN { print $when * $minute }")
[ ! -e /run/shutdown.pid ] || kill "$(cat /run/shutdown.pid)" 2> /dev/null
setsid sh -c 'echo $$ > /run/shutdown.pid; sleep "$1"; kill -TERM 1' - "$seconds" \\
  < /dev/null > /dev/null 2>&1 3<&- &
echo "Shutdown scheduled in $when minutes, use 'shutdown -c' to cancel."
"""

POWEROFF = """#!/bin/sh
exec /usr/sbin/shutdown -P now
"""

SYSTEMCTL = """#!/bin/sh
case "${1-} ${2-}" in
  "reload ssh"* | "restart ssh"* | "reload-or-restart ssh"* | "try-reload-or-restart ssh"*)
    exec kill -HUP "$(cat /run/sshd.pid)" ;;
  "is-system-running "*) echo running ;;
  "poweroff "*) exec /usr/sbin/shutdown -P now ;;
  *) echo "systemctl: the test cloud does not know $*" >&2; exit 1 ;;
esac
"""


def host_key() -> tuple[str, str]:
    """Return a new key, private and public."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} root@host"


def fill(upper: Upper, wanted: Wanted, name: str) -> None:
    """Write what is different on a host from this machine."""
    orders = wanted.orders
    upper.let_in(wanted.user)
    upper.empty("/etc/ssh")
    upper.write("/etc/ssh/sshd_config", SSHD_CONFIG)
    keys = dict(orders.keys) or {"ed25519": host_key()}
    for kind, (private, public) in keys.items():
        upper.write(f"/etc/ssh/ssh_host_{kind}_key", private.rstrip("\n") + "\n", 0o600)
        upper.write(f"/etc/ssh/ssh_host_{kind}_key.pub", public.rstrip("\n") + "\n")
    upper.write("/etc/hostname", f"{name}\n")
    upper.write("/etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{wanted.address} {name}\n")
    upper.write("/etc/resolv.conf", "# no name server\n")
    upper.write(f"{STATE}/early", orders.early)
    upper.write(f"{STATE}/late", orders.late)
    upper.write(f"{STATE}/said", _said(orders, [public for _, public in keys.values()]))
    _log_in(upper, wanted.user, [*wanted.keys, *orders.authorized])
    for file in orders.files:
        upper.write(file.path, file.text, file.mode)


def _said(orders: Orders, public: list[str]) -> str:
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
    for written in (folder, folder / "authorized_keys"):
        os.chown(written, owner.st_uid, owner.st_gid)
    folder.chmod(0o700)


def programs(upper: Upper, minute: float) -> None:
    """Write the programs that stand for what a booted system has."""
    upper.write("/etc/test-cloud-minute", f"{minute}\n")
    for path, text in {
        "/usr/bin/sudo": SUDO,
        "/usr/bin/systemctl": SYSTEMCTL,
        "/usr/sbin/poweroff": POWEROFF,
        "/usr/sbin/halt": POWEROFF,
        "/usr/sbin/shutdown": SHUTDOWN,
    }.items():
        upper.write(path, text, 0o755)
    as_root = upper.folder("/usr/libexec/test-cloud") / "as-root"
    shutil.copyfile(str(shutil.which("setpriv")), as_root)
    as_root.chmod(0o4755)
