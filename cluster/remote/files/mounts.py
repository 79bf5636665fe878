"""Mount shared file systems on hosts, and unmount those that were mounted by us.

A list on each host names them: each is in it before it is mounted, so that any
teardown finds it. What is mounted there already, from the same device, is used and stays.
"""

import posixpath
import re
from collections.abc import Mapping
from functools import partial

from cluster.core.errors import ClusterError, Denied, ProvisionError, ShellError, SpecError, Timeout
from cluster.core.model.mounts import KINDS, Mount
from cluster.core.state.files import load_script
from cluster.remote.parallel import on_each, try_each
from cluster.remote.sessions.leftovers import MARK
from cluster.remote.shells import Shell

LIST = "mounts"  # in a machine's folder; a line is a device, a folder and `made`, if it was
WITHIN = 60  # seconds for mount(8) and umount(8)
TIMEOUT = 400.0  # seconds, also to install a client
LATE = 124  # exit status of timeout(1)

COMMON = load_script(__file__, "mounts.sh", MARK=MARK, WITHIN=WITHIN)
MOUNT = COMMON + load_script(__file__, "mount.sh")
UNMOUNT = COMMON + load_script(__file__, "unmount.sh")

# What mount.nfs, mount.lustre, sshfs and mount print (utils/mount/error.c of nfs-utils,
# lustre/utils/mount_lustre.c, libmount), the kind of error that it is, and what to do.
SILENT = "timed out|o route to host|refused|unreachable|is down|reset by peer|put/output error"
NO_CLIENT = "nknown filesystem type|No such device|helper program"
LOGIN = "ermission denied|verification failed"
ANSWERS: tuple[tuple[str, type[ClusterError], str], ...] = (
    ("is mounted there|has files", SpecError, "Choose another folder: mount={source}:/FOLDER"),
    ("sudo:", Denied, "Only root mounts: log in as root, or permit sudo without a password."),
    (
        "access denied|Operation not permitted",
        Denied,
        "Add these hosts to /etc/exports of the server, then there: exportfs -ra",
    ),
    (SILENT, Timeout, "See that the server runs, and open its port {port} to the hosts."),
    ("resolve|not known|Can't parse NID", SpecError, "Write the address of the server instead."),
    (NO_CLIENT, SpecError, "Choose an --image that has its client, or install it: {packages}"),
    ("not supported", ProvisionError, "See which versions the server has: rpcinfo -p HOST"),
    ("No such file|does not exist", SpecError, "See what the server exports: showmount -e HOST"),
    (LOGIN, Denied, "Put a key that the server accepts, and its host key, into /root/.ssh there."),
)


def mount_all(shells: Mapping[str, Shell], mounts: tuple[Mount, ...]) -> None:
    """Mount file systems on every host that has not mounted them.

    ClusterError: one host could not mount one, as `ANSWERS` says. HostErrors: several could not.
    """
    for mount in mounts:
        on_each(shells, partial(_mount, mount))


def unmount_all(shells: Mapping[str, Shell]) -> None:
    """Unmount what was mounted by us on every host, where that is possible."""
    try_each(shells, lambda _, shell: unmount(shell))


def unmount(shell: Shell) -> None:
    """Unmount what was mounted by us on a host (ShellError: it is in use, or does not answer)."""
    result = shell.run(["sh", "-c", UNMOUNT, "sh", _list(shell)], timeout=TIMEOUT)
    if result.status != 0:
        reason = result.stderr.strip() or f"its server does not answer within {WITHIN} s"
        users = result.stdout.strip()
        raise ShellError(
            f"A shared file system could not be unmounted: {reason}",
            means=f"It is used by:\n{users}" if users else "",
            remedy="End what uses it, and type the same again. By force, which loses what is not "
            "written yet: sudo umount -f -l FOLDER",
        )


def _mount(mount: Mount, name: str, shell: Shell) -> None:
    kind = KINDS[mount.kind]
    words = [_list(shell), mount.source, mount.folder, kind.type, kind.options]
    words += kind.packages.split() or ("", "")
    # A teardown ends a script that still mounts, but not the daemon of what is mounted.
    mark = f"{MARK}={posixpath.dirname(_list(shell))}"
    result = shell.run(["env", mark, "sh", "-c", MOUNT, "sh", *words], timeout=TIMEOUT)
    if result.status != 0:
        late = f"it timed out after {WITHIN} s" if result.status == LATE else ""
        text = result.stderr.strip() or late or f"mount exits with {result.status}"
        packages = kind.packages.replace(" ", " or ") or "see the vendor's guide"
        source = f"{mount.kind}:{mount.source}"
        answers = (answer for answer in ANSWERS if re.search(answer[0], text))
        _, error, remedy = next(answers, ("", ProvisionError, ""))
        raise error(
            f"{name} cannot mount {mount.source} at {mount.folder}: {text.splitlines()[0]}",
            remedy=remedy.format(port=kind.port, packages=packages, source=source),
            host=name,
        )


def _list(shell: Shell) -> str:
    return posixpath.join(shell.machine.folder if shell.machine else "", LIST)
