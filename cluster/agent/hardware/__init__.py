"""The hardware of this host: links, GPUs and counters, as small files of the kernel have them."""

from pathlib import Path


def read_text(path: Path) -> str:
    """Read a small file, stripped; empty if there is no such file, or it is not text."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def cgroup_folders(controller: str, root: Path = Path("/")) -> list[Path]:
    """Return the folders of this process's group and of all groups above it, for one controller."""
    folders: list[Path] = []
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = Path(path.lstrip("/"))
        # In a container, the path may be the host's while the mount shows only this group.
        folders += [mount / part for part in (inner, *inner.parents)]
    return folders
