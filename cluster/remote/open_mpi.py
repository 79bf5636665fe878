"""Workarounds for the pip-installed Open MPI: a slow start, and ranks without ssh.

The component btl/ofi drives RDMA adapters through libfabric, for one-sided calls. Where it finds
none, as on each host with TCP only, every rank sleeps for a second in MPI_Init
(`mca_btl_ofi_component_close` in Open MPI's opal/mca/btl/ofi/btl_ofi_component.c). The component
mtl/ofi carries messages over EFA and its like. Where the kernel has no such device, its search
takes a quarter of the processor time of a rank's start. Debian's package leaves out both.

A setting of the user's has precedence: `--mca btl=...`, `OMPI_MCA_btl`, `~/.openmpi`.

Where there is neither ssh nor rsh, mpirun ignores the slots that `--host localhost:4` gives, and
refuses more ranks than cores: "Your job failed to map" (PRRTE then has no launch agent). On
this machine alone no agent is called, so any program does.
"""

import shutil
from pathlib import Path

from cluster.core.model.hosts import Machine
from cluster.core.state.files import text_of

PARAMETERS = "etc/openmpi-mca-params.conf"  # below the prefix of an Open MPI
OWN_PARAMETERS = ".openmpi/mca-params.conf"  # below the user's home folder
REMOTE_SHELLS = ("ssh", "rsh")  # that start Open MPI's daemons on other hosts
STAND_IN = {"PRTE_MCA_plm_ssh_agent": "true"}  # never called
DEVICES = ("infiniband", "cxi")  # RDMA devices: also RoCE and EFA; Slingshot
# Appends to the parameter file below `env`, if an Open MPI is installed there.
SCRIPT = f"""\
file=env/{PARAMETERS}
if [ -f $file ]; then
  echo 'btl = ^ofi' >> $file
  for device in {" ".join(f"/sys/class/{device_class}/*" for device_class in DEVICES)}; do
    [ ! -e "$device" ] || file=
  done
  [ -z "$file" ] || echo 'mtl = ^ofi' >> $file
fi
"""


def local_variables(
    machine: Machine, home: Path, classes: Path = Path("/sys/class")
) -> dict[str, str]:
    """Return this machine's variables of Open MPI, where its parameter file is not ours.

    None for another machine, or if no Open MPI is beside its Python.
    """
    file = Path(machine.bin).parent / PARAMETERS
    if machine.shell != "local" or not file.is_file():
        return {}
    rdma = any(device.exists() for name in DEVICES for device in (classes / name).glob("*"))
    parameters = _names(file) | _names(home / OWN_PARAMETERS)
    components = {"btl"} if rdma else {"btl", "mtl"}
    left_out = {f"OMPI_MCA_{name}": "^ofi" for name in sorted(components - parameters)}
    return left_out if any(map(shutil.which, REMOTE_SHELLS)) else {**left_out, **STAND_IN}


def _names(file: Path) -> set[str]:
    """Return the names of the parameters that a file sets; none if it cannot be read."""
    return {line.partition("=")[0].strip() for line in text_of(file).splitlines()}
