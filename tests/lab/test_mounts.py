"""Shared file systems on real hosts: a server that one of them is, by sshfs and the kernel's mount.

This kernel may have no NFS: what mount.nfs and mount.lustre say is said by a stand-in for them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import ClusterError, Denied, HostErrors, ProvisionError, SpecError, Timeout
from cluster.core.model.mounts import Mount, in_region, parse_mounts
from cluster.core.state import journal
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.launch.launch import launch_spec
from cluster.orchestration.launch.orphans import remove
from cluster.remote.files.mounts import LIST, mount_all, unmount_all
from tests import killed_processes
from tests.conftest import until
from tests.lab.conftest import must
from tests.orphans import find_orphans

sshfs = pytest.mark.skipif(not shutil.which("sshfs"), reason="this machine has no sshfs")
MOUNTED = "awk '$2 == \"/shared\" {print $1}' /proc/mounts"


@pytest.fixture
def source(lab: Cluster, home: Path) -> Iterator[str]:
    """A folder of host 0 that both hosts may mount; ssh from here knows both hosts."""
    access = lab.machines[0].access
    assert access is not None
    must(lab, 0, "mkdir -p /data && echo here > /data/file")
    public = must(lab, 0, "cat /etc/ssh/cluster_host_key.pub").strip()
    lab.put(access.key, "/root/.ssh/id_ed25519")
    lab.run(f"echo '{access.host} {public}' > /root/.ssh/known_hosts")
    settings = f"IdentityFile {access.key}\nUserKnownHostsFile {access.known_hosts}\n"
    (home.parent / ".ssh").mkdir(exist_ok=True)
    (home.parent / ".ssh" / "config").write_text(settings)
    yield f"sshfs:root@{access.host}:/data"
    must(lab, 0, "rm -r /data")


@pytest.fixture
def hosts(lab: Cluster) -> str:
    return ",".join(f"root@{machine.access.host}" for machine in lab.machines if machine.access)


def mounted(lab: Cluster) -> list[str]:
    """Return what each host of the lab has mounted at /shared."""
    return [must(lab, number, MOUNTED).strip() for number in (0, 1)]


def untouched(lab: Cluster) -> bool:
    """Tell whether nothing is mounted, and neither the folder nor the list of mounts is left."""
    results = lab.run("ls -d /shared .cluster-over 2> /dev/null", check=False)
    return mounted(lab) == ["", ""] and not any(result.stdout for result in results.values())


@sshfs
def test_hosts_share_files_until_down(lab: Cluster, source: str, hosts: str) -> None:
    options = {"hosts": hosts, "mount": source, "bin": "/usr/bin"}
    c = cluster.launch("over", provider="ssh", options=options)
    must(lab, 1, "echo there > /shared/other")
    assert [must(lab, n, "cat /shared/file /data/other 2> /dev/null; :") for n in (0, 1)] == [
        "here\nthere\n",
        "here\n",
    ]
    must(lab, 1, "umount /shared")
    assert cluster.launch("over", provider="ssh", options=options).name == "over"
    device = source.removeprefix("sshfs:")
    assert mounted(lab) == [device, device]

    user = lab.hosts[1].run("cd /shared; sleep 600 > /dev/null 2>&1 & echo $!").stdout.strip()
    with pytest.raises(cluster.ShellError, match="busy") as busy:
        c.down()
    assert f"{user} sleep 600" in busy.value.means
    assert mounted(lab) == ["", device]
    must(lab, 1, f"kill {user}")
    attach("over").down()
    assert untouched(lab)


@sshfs
def test_what_was_mounted_before_stays(lab: Cluster, source: str, hosts: str) -> None:
    device = source.removeprefix("sshfs:")
    must(lab, 0, f"mkdir /shared && sshfs {device} /shared")
    options = {"hosts": hosts, "mount": source, "bin": "/usr/bin"}
    with cluster.launch("over", provider="ssh", options=options):
        assert mounted(lab) == [device, device]
    assert mounted(lab) == [device, ""]
    must(lab, 0, "umount /shared && rmdir /shared")


@sshfs
@pytest.mark.parametrize("way", ["down", "gc", "up"])
def test_a_launch_that_is_killed_while_it_mounts_leaves_nothing(
    lab: Cluster, source: str, hosts: str, way: str
) -> None:
    """One host has mounted, the other is about to."""
    late = "printf 'sleep 600' > mount.fuse.sshfs && chmod 755 mount.fuse.sshfs"
    must(lab, 1, f"cd /usr/sbin && mv mount.fuse.sshfs kept && {late}")
    spec = cluster.ClusterSpec(
        name="over", provider="ssh", options={"hosts": hosts, "mount": source, "bin": "/usr/bin"}
    )
    with killed_processes.begun(killed_processes.launch, spec) as process:
        until(lambda: mounted(lab)[0], "host 0 has mounted")
        process.kill()
    must(lab, 1, "cd /usr/sbin && mv kept mount.fuse.sshfs")
    if way == "gc":
        for orphan in find_orphans():
            remove(orphan)
    else:
        (launch_spec(spec) if way == "up" else attach("over")).down()
    assert untouched(lab)
    assert "over" not in journal.names()


SYSTEM = (
    *("/etc", "/etc/ssh", "/usr", "/usr/lib", "/usr/local", "/bin", "/sbin", "/lib", "/lib64"),
    *("/dev", "/proc", "/sys", "/boot", "/run", "/var", "/var/lib", "/root", "/home"),
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", []),
        ("nfs:fs-01234567:/data", [("fs-01234567:/data", "/shared")]),
        ("efs:fs-01234567", [("fs-01234567.efs.cn-north-1.amazonaws.com.cn:/", "/shared")]),
        ("efs:fs-01234567:/a", [("fs-01234567.efs.cn-north-1.amazonaws.com.cn:/", "/a")]),
        ("efs:h:/a", "names no file system"),
        ("efs:fs-0123", "names no file system"),
        ("nfs:fs-01234567", "names no file system"),
        ("filestore:h:/a", "only hosts of gcp reach filestore"),
        ("nfs:h:/a:/b/../c", "names no file system"),
        ("nfs:h:/a:/b//c", "names no file system"),
        ("nfs:10.0.0.9:/data", [("10.0.0.9:/data", "/shared")]),
        ("nfs:h:/:/a,sshfs:me@h:/b:/b/c", [("h:/", "/a"), ("me@h:/b", "/b/c")]),
        ("lustre:10.0.0.2@tcp:/lfs:/scratch", [("10.0.0.2@tcp:/lfs", "/scratch")]),
        ("nfs:h:/a,nfs:h:/b", "two file systems at one folder"),
        ("nfs:h:a", "names no file system"),
        ("nfs:h:/a:b", "names no file system"),
        ("nfs:h:/a:/", "names no file system"),
        ("nfs:-o:/a b", "names no file system"),
        ("smb:h:/a", "names no file system"),
        *((f"nfs:h:/a:{folder}", f"would hide {folder},") for folder in SYSTEM),
        ("nfs:h:/etc:/mnt/usr", [("h:/etc", "/mnt/usr")]),
        ("nfs:h:/data:/library", [("h:/data", "/library")]),
        ("nfs:h:/a:/usr/local/apps", [("h:/a", "/usr/local/apps")]),
        ("nfs:h:/a:/home/me/data", [("h:/a", "/home/me/data")]),
    ],
)
def test_what_the_option_names(text: str, read: str | list[tuple[str, str]]) -> None:
    if isinstance(read, str):
        with pytest.raises(SpecError, match=read):
            parse_mounts(text, "aws")
    else:
        mounts = [in_region(mount, "cn-north-1") for mount in parse_mounts(text, "aws")]
        assert [(mount.source, mount.folder) for mount in mounts] == read


def say(lab: Cluster, kind: str, text: str, status: int = 32) -> None:
    """Let a stand-in for a client of a kind of file system say something on host 1 only."""
    for number, script in ((0, "exit 0"), (1, f"echo '{text}' >&2; exit {status}")):
        path = f"/usr/sbin/mount.{kind}"
        must(lab, number, f"printf '#!/bin/sh\\n%s\\n' \"{script}\" > {path}; chmod 755 {path}")


NFS = Mount("nfs", "server:/data", "/shared")
FSX = Mount("lustre", "fs-0.fsx@tcp:/lfs", "/shared")


@pytest.mark.parametrize(
    ("mount", "text", "kind", "remedy"),
    [
        (NFS, "mount.nfs: access denied by server while mounting s:/d", Denied, "exports"),
        (NFS, "mount.nfs: Operation not permitted for s:/d on /shared", Denied, "exports"),
        (NFS, "mount.nfs: Connection timed out for s:/d on /shared", Timeout, "port 2049"),
        (NFS, "mount.nfs: Connection refused for s:/d on /shared", Timeout, "port 2049"),
        (NFS, "mount.nfs: No route to host for s:/d on /shared", Timeout, "port 2049"),
        (NFS, "mount.nfs: Network is unreachable for s:/d", Timeout, "port 2049"),
        (NFS, "mount.nfs: Failed to resolve server s: Name or service not known",
         SpecError, "address"),
        (NFS, "mount.nfs: mounting s:/d failed, reason given by server: No such file or directory",
         SpecError, "showmount"),
        (NFS, "mount.nfs: requested NFS version or transport protocol is not supported for s:/d",
         ProvisionError, "rpcinfo"),
        (NFS, "mount.nfs: an incorrect mount option was specified", ProvisionError, ""),
        (FSX, "mount.lustre: mount s at /shared failed: No such device", SpecError, "--image"),
        (FSX, "mount.lustre: mount s at /shared failed: Input/output error", Timeout, "port 988"),
        (FSX, "mount.lustre: Can'\\''t parse NID 's'", SpecError, "address"),
        (FSX, "mount.lustre: mount s failed: No such file or directory", SpecError, "showmount"),
    ],
)  # fmt: skip
def test_each_fault_has_its_class_and_remedy(
    lab: Cluster, mount: Mount, text: str, kind: type[ClusterError], remedy: str
) -> None:
    say(lab, "nfs" if mount is NFS else "lustre", text)
    with pytest.raises(ClusterError) as error:
        mount_all(lab.shells(), (mount,))
    unmount_all(lab.shells())

    assert type(error.value) is kind
    assert "1.mpi.shared" in error.value.what
    assert remedy in error.value.remedy
    assert must(lab, 1, f"ls -d /shared .cluster-shared/{LIST} 2> /dev/null; :") == ""


def test_a_missing_client_and_a_folder_with_files(lab: Cluster) -> None:
    """Nobody has a client for Lustre here; the files of a folder would be hidden."""
    must(lab, 0, "rm -f /usr/sbin/mount.lustre")
    must(lab, 1, "mkdir /shared && touch /shared/own")
    with pytest.raises(HostErrors) as failure:
        mount_all(lab.shells(), parse_mounts("lustre:10.0.0.2@tcp:/lfs", "lab"))
    unmount_all(lab.shells())
    must(lab, 1, "rm -r /shared")

    first, second = failure.value.exceptions
    assert (type(first), type(second)) == (SpecError, SpecError)
    assert "/shared" in str(second)
    assert must(lab, 0, "ls -d /shared 2> /dev/null; :") == ""
