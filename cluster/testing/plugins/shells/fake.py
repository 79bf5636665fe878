"""Shells to hosts that play a script; see `cluster.testing`."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from cluster.core.errors import ShellError
from cluster.core.model.hosts import Completed, Machine
from cluster.core.model.value import Argv, LineCallback
from cluster.remote.shells import Shell
from cluster.testing import FakeHosts


class FakeShell(Shell):
    """Asks the script, and keeps files in memory."""

    def __init__(self, machine: Machine | None = None) -> None:
        if machine is None or FakeHosts.active is None:
            raise ShellError(
                "Fake hosts are only in a block: with cluster.testing.FakeHosts(): ..."
            )
        super().__init__(machine)
        self._hosts = FakeHosts.active
        self._machine = machine
        self._files = self._hosts.files.setdefault(machine.id, {})

    def connect(self) -> None:
        self._hosts.connect(self._machine)
        self.state = "ready"

    def run(
        self, argv: Argv, *, timeout: float | None = None, on_line: LineCallback | None = None
    ) -> Completed:
        reply = self._hosts.run(self._machine, tuple(argv))
        if on_line:
            for line in reply.stdout.splitlines():
                on_line(line)
        return Completed(argv=tuple(argv), **structs.asdict(reply))

    def write(self, text: str, path: str, *, mode: int = 0o644) -> None:
        self.connect()
        self._files[path] = text.encode()

    def put(self, path: Path, to: str, *, only: Sequence[str] | None = None) -> None:
        self.connect()
        files = path.rglob("*") if only is None else (path / name for name in only)
        for file in [path] if path.is_file() else files:
            if file.is_file():
                name = "" if file == path else f"/{file.relative_to(path)}"
                self._files[f"{to}{name}"] = file.read_bytes()

    def fetch(self, path: str, to: Path) -> None:
        self.connect()
        inside = {name: data for name, data in self._files.items() if _is_below(name, path)}
        if not inside:
            raise ShellError(f"{self._machine.name} has no {path}.", host=self._machine.name)
        for name, data in inside.items():
            place = to / (name.removeprefix(f"{path}/") if name != path else Path(path).name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

    def exists(self, path: str) -> bool:
        self.connect()
        return any(_is_below(name, path) for name in self._files)

    def remove(self, path: str) -> None:
        self.connect()
        for name in [name for name in self._files if _is_below(name, path)]:
            del self._files[name]


def _is_below(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")
