"""What runs in a pod: processes of this machine, in a folder of their own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from tests.fakes.kubernetes.errors import Gap
from tests.fakes.kubernetes.store import Object

POD = "FAKE_KUBERNETES_POD"  # variable of all processes of a pod: its uid


# Its words: files to hide, `--`, and a command.
WITHOUT = """
while [ "$1" != -- ]; do mount --bind /dev/null "$1"; shift; done
shift
exec "$@"
"""
PLACES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Image(NamedTuple):
    """An image of the registry."""

    user: int = 1000
    lacks: tuple[str, ...] = ()  # programs that are not in it; with `python3`, all its versions
    folder: Path | None = None  # of this machine, which is in it as `/mnt`; in pods of a lab


class Entry(NamedTuple):
    """How a process begins in a pod."""

    words: tuple[str, ...]  # before its own
    env: Mapping[str, str]
    folder: Path | None = None


def variables(pod: Object) -> dict[str, str]:
    container = pod["spec"]["containers"][0]
    values = {pair["name"]: pair["value"] for pair in container.get("env") or ()}
    return {"PATH": os.environ["PATH"], POD: pod["metadata"]["uid"], **values}


class FolderPods:
    """Pods that are processes of this machine, whose home is a folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pods"))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._addresses: dict[str, str] = {}
        self.images: dict[str, Image] = {}

    def address(self, pod: Object, node: Object) -> str:
        """Return the address of a pod: one of this machine's, as its processes are."""
        del node
        if pod["metadata"]["uid"] not in self._addresses:
            self._addresses[pod["metadata"]["uid"]] = f"127.0.1.{len(self._addresses) % 254 + 1}"
        return self._addresses[pod["metadata"]["uid"]]

    def start(self, pod: Object, node: Object) -> None:
        del node
        uid = pod["metadata"]["uid"]
        if uid in self._running:  # its object changed before that could be noted
            return
        (self.folder / uid).mkdir()
        with self.log(pod).open("wb") as log:
            self._running[uid] = self.execute(
                pod, pod["spec"]["containers"][0]["command"], subprocess.DEVNULL, log
            )

    def initialized(self, pod: Object) -> tuple[int, str] | None:
        """Return exit status and message of the container before the others, if it ended."""
        raise Gap(f"what runs before {pod['spec']['containers'][0]['name']}, in folders")

    def resolve(self, names: Mapping[str, str]) -> None:
        """Let all pods know the addresses of these names, and of no others."""
        if names:
            raise Gap("names of pods that are folders")

    def log(self, pod: Object) -> Path:
        return self.folder / f"{pod['metadata']['uid']}.log"

    def exit_status(self, pod: Object) -> int | None:
        """Return the exit status of a container that ended."""
        process = self._running.get(pod["metadata"]["uid"])
        return process.poll() if process else None  # it may just have been stopped

    def execute(
        self,
        pod: Object,
        words: Sequence[str],
        stdin: int = subprocess.PIPE,
        output: int | IO[bytes] = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        entry = self.entry(pod)
        return subprocess.Popen(
            [*entry.words, *words],
            stdin=stdin,
            stdout=output,
            stderr=output,
            env=entry.env,
            cwd=entry.folder,
            start_new_session=True,
            bufsize=0,
        )

    def entry(self, pod: Object) -> Entry:
        home = self.folder / pod["metadata"]["uid"]
        image = self.images.get(pod["spec"]["containers"][0]["image"], Image())
        hidden = files_of(image.lacks)
        words = ("unshare", "--mount", "sh", "-c", WITHOUT, "sh", *hidden, "--") if hidden else ()
        return Entry(words, {**variables(pod), "HOME": str(home)}, home)

    def stop(self, pod: Object) -> None:
        """End all processes of a pod, and remove its folder."""
        uid = pod["metadata"]["uid"]
        while pids := list(processes(uid)):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        if process := self._running.pop(uid, None):
            with process:
                pass
        shutil.rmtree(self.folder / uid, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self.folder)


def files_of(programs: Sequence[str]) -> list[str]:
    """Find all files by which programs would start."""
    folders = dict.fromkeys((*os.environ["PATH"].split(":"), *PLACES))
    files = {
        str(path.resolve())
        for folder in map(Path, folders)
        for program in programs
        for path in folder.glob(f"{program}*" if program == "python3" else program)
    }
    return sorted(files)


def processes(uid: str) -> list[int]:
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{POD}={uid}".encode() in (path / "environ").read_bytes().split(b"\0"):
                pids.append(int(path.name))
    return pids
