"""Shared file systems that hosts mount: what the option `mount` names, as mount(8) takes it."""

import re

from msgspec.structs import replace

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

FORM = re.compile(
    r"(?:(?P<efs>efs)|(?P<kind>(?!efs:)\w+)):"
    r"(?P<source>(?(efs)fs-[0-9a-f]{8,40}|(?:[\w.-]+@)?\w[\w.-]*(?:@\w+)?:/[\w./-]*))"
    r"(?::(?P<folder>(?:/\w[\w.-]*)+))?",
    re.ASCII,
)
# What a system needs of itself, at any depth, or at its top (hier(7)); /mnt, /srv, /opt and what
# sites put below /home, /var and /usr/local are free.
SYSTEM = re.compile(
    r"/(?:(?:bin|boot|dev|etc|lib(?:32|64|x32|exec)?|proc|run|sbin|sys|usr(?!/local/.))(?:/.*)?|"
    r"home|root|tmp|var(?:/(?:lib|log|run|tmp))?)",
    re.ASCII,
)
SSHFS = "BatchMode=yes,ConnectTimeout=10,allow_other,default_permissions"
# EFS user guide, "Recommended NFS mount settings"
EFS = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,retry=0"
NFS_PACKAGES = "nfs-common nfs-utils"


class MountKind(Value, frozen=True):
    """A kind of file system."""

    type: str  # as mount(8) names it
    options: str
    port: int  # of its server
    packages: str = ""  # with its client, of Debian and of others; empty: these have none
    provider: str = ""  # whose hosts alone reach it; empty: any


KINDS = {  # nfs(5): with `retry=0`, mount fails at once where no server answers
    "nfs": MountKind("nfs", "retry=0", 2049, NFS_PACKAGES),
    "efs": MountKind("nfs", EFS, 2049, NFS_PACKAGES, "aws"),
    "filestore": MountKind("nfs", "retry=0", 2049, NFS_PACKAGES, "gcp"),
    "lustre": MountKind("lustre", "flock", 988),
    "sshfs": MountKind("fuse.sshfs", SSHFS, 22, "sshfs fuse-sshfs"),
}
EXAMPLES = "nfs:10.0.0.9:/data:/shared, efs:fs-0123456789abcdef0:/shared, sshfs:me@storage:/data"


class Mount(Value, frozen=True):
    """A file system that every host mounts."""

    kind: str  # one of `KINDS`
    source: str  # `HOST:/PATH`; of EFS an id, until its region is known
    folder: str  # on every host

    @property
    def line(self) -> str:
        return f"every host mounts {self.kind} {self.source} at {self.folder} until `cluster down`"


def parse_mounts(text: str, provider: str) -> tuple[Mount, ...]:
    """Read `KIND:HOST:/PATH[:/FOLDER]` or `efs:ID[:/FOLDER]`, several separated by commas.

    SpecError: one is neither, or hosts of the provider cannot reach it, or its folder is not free.
    """
    mounts = []
    for word in filter(None, map(str.strip, text.split(","))):
        match = FORM.fullmatch(word)
        kind = (match["efs"] or match["kind"]) if match else ""
        if match is None or kind not in KINDS:
            raise SpecError(
                f"--option mount={word} names no file system that hosts can mount.",
                remedy=f"Write KIND:HOST:/PATH:/FOLDER, such as {EXAMPLES}",
            )
        if KINDS[kind].provider not in ("", provider):
            raise SpecError(
                f"--option mount={word}: only hosts of {KINDS[kind].provider} reach {kind}.",
                remedy=f"Use --provider {KINDS[kind].provider}, or mount=nfs:HOST:/PATH:/FOLDER",
            )
        folder = match["folder"] or "/shared"
        if SYSTEM.fullmatch(folder):
            raise SpecError(
                f"--option mount={word} would hide {folder}, which the system of every host needs.",
                remedy=f"Choose another folder: mount={word.removesuffix(folder)}/shared",
            )
        mounts.append(Mount(kind, match["source"], folder))
    if len({mount.folder for mount in mounts}) < len(mounts):
        raise SpecError(
            "--option mount= mounts two file systems at one folder.",
            remedy="Name a folder for each: --option mount=nfs:HOST:/PATH:/a,nfs:HOST:/OTHER:/b",
        )
    return tuple(mounts)


def in_region(mount: Mount, region: str) -> Mount:
    """Return a mount of Amazon with the name that its hosts resolve to the target in their zone."""
    if mount.kind != "efs":
        return mount
    suffix = ".cn" if region.startswith("cn-") else ""
    return replace(mount, source=f"{mount.source}.efs.{region}.amazonaws.com{suffix}:/")
