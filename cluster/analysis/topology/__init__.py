"""How the devices of a host are connected: paths, as nvidia-smi, rocm-smi and numactl name them."""

import re

# From slow to fast; NVLinks are faster still. AMD's tool does not tell paths through PCIe apart.
CLASSES = ("PCIE", "SYS", "NODE", "PHB", "PXB", "PIX", "XGMI")
OLD = {"SOC": "SYS"}
UNKNOWN = "?"
_NVLINKS = re.compile(r"NV(\d+)")


def speed(path: str) -> tuple[int, int]:
    """Return a key that grows with the speed of a path: `NV2`, `SYS`, or NUMA distance `21`."""
    if path.isdecimal():
        return 0, -int(path)
    links = nvlinks(path)
    if links:
        return len(CLASSES) + 1, links
    path_now = OLD.get(path, path)
    return (CLASSES.index(path_now) + 1 if path_now in CLASSES else 0), 0


def nvlinks(path: str) -> int:
    """Count the NVLinks of a path such as `NV2`; 0 if it has none."""
    match = _NVLINKS.fullmatch(path)
    return int(match[1]) if match else 0
