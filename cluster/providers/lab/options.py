"""The options of the provider `lab`, and the folder of a lab."""

from pathlib import Path
from typing import Literal

from cluster.core.model.spec import EnvironmentOptions
from cluster.core.model.value import Value
from cluster.providers.lab.rootfs import Upper

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
READY_WITHIN = 60.0  # seconds for all hosts to be up
GONE_WITHIN = 30.0  # seconds for killed processes to end
POLL = 0.005  # seconds between two checks


class LabOptions(EnvironmentOptions, frozen=True, kw_only=True):
    """The options of the provider `lab`.

    Args:
        rate: of every link, each way, such as `1gbit`; as fast as this machine can, if empty.
        mtu: of every link, in bytes.
        overlay: `vxlan` puts the cluster's traffic through an encapsulating overlay network.
        root: the folder of a root file system for the hosts; this machine's own `/`, with homes,
            /tmp, /opt, /srv, /var/tmp and the checkout emptied, if not given.
        user: the account to log in as; made on every host if it is not there.
        leaves: leaf switches, each with an equal share of the hosts and an uplink to one spine
            switch; one switch for all hosts, if 0.
        uplink: rate of each leaf's uplink, each way; as fast as this machine can, if empty.
        mount: file systems that every host mounts, such as `nfs:10.0.0.9:/data:/shared`.
        slurm: Slurm runs on the hosts: its controller on the first one, a worker on each.
    """

    rate: str = ""
    mtu: int = 1500
    overlay: Literal["", "vxlan"] = ""
    root: str = "/"
    user: str = "root"
    leaves: int = 0
    uplink: str = ""
    mount: str = ""
    slurm: bool = False


class LabFolder(Value, frozen=True, kw_only=True):
    name: str  # of the cluster
    folder: Path  # its path

    def host(self, number: int | str) -> Path:
        return self.folder / "hosts" / str(number)


def upper_of(files: LabFolder, number: int, options: LabOptions) -> Upper:
    """Return the upper layer of a host's root file system: what differs from the lower one."""
    return Upper(files.host(number) / "upper", Path(options.root))


def leaf_of(number: int, hosts: int, leaves: int) -> int:
    """Return the leaf switch of a host: consecutive hosts share one."""
    return number * leaves // hosts
