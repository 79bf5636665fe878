"""sync: bring a folder of hosts to the state of one here, by sending what differs.

What `.gitignore` names stays here.
"""

from __future__ import annotations

import logging
import os
import posixpath
import stat
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cluster.agent.scratch import sha256
from cluster.core.errors import ClusterError, ShellError, SpecError
from cluster.core.model.hosts import SyncFigures
from cluster.core.model.value import Value
from cluster.core.text.units import format_bytes
from cluster.orchestration.bench.working_folder import stays_here
from cluster.remote.files import host_files, spread
from cluster.remote.files.host_files import HostTree, TreeEntry
from cluster.remote.parallel import results, try_each
from cluster.remote.shells import Shell
from cluster.reports.words.outcomes import sync_words

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


GIT, IGNORE = ".git", ".gitignore"
KINDS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l"}


class IgnoreRules:
    """The patterns of `.gitignore` files: those of a tree, and those of the work tree around it."""

    def __init__(self, top: Path) -> None:
        """Read the files above a folder, up to the top of its work tree, unless they name it."""
        self._specs: dict[tuple[str, str], GitIgnoreSpec] = {}
        folders = [top, *top.parents]
        root = next((folder for folder in folders if (folder / GIT).exists()), top)
        for folder in folders[1 : folders.index(root) + 1]:
            self.read(folder, prefix=f"{top.relative_to(folder)}/")
        if self.ignores(""):
            self._specs.clear()

    def read(self, folder: Path, path: str = "", prefix: str = "") -> None:
        """Read the patterns of a folder, if it has any.

        `path` is the folder's path in the tree, or `prefix` the path of the tree in the folder;
        both end with `/`.
        """
        files = (folder / GIT / "info" / "exclude", folder / IGNORE)
        texts = [file.read_text(errors="surrogateescape") for file in files if file.is_file()]
        if texts:
            from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few commands sync

            lines = "\n".join(texts).splitlines()
            self._specs[path, prefix] = GitIgnoreSpec.from_lines(lines)

    def ignores(self, name: str) -> bool:
        """Return whether a name is ignored, if its folder is not; a folder ends with `/`."""
        keys = {key for key in self._specs if name.startswith(key[0])}
        for key in sorted(keys, key=lambda key: (len(key[0]), -len(key[1])), reverse=True):
            path = key[1] + name[len(key[0]) :]
            is_included = self._specs[key].check_file(path).include if path else None
            if is_included is not None:
                return is_included
        return False

    def protects(self, name: str, is_folder: bool) -> bool:  # noqa: FBT001 - of the name
        """Return whether a name, or a folder that it is in, is ignored."""
        parts = name.split("/")
        folders = ("/".join(parts[:end]) + "/" for end in range(1, len(parts)))
        return any(map(self.ignores, (*folders, name + "/" * is_folder)))


class LocalTree(Value, frozen=True, kw_only=True):
    """The part of a folder that is sent."""

    path: Path
    entries: dict[str, TreeEntry]  # by their paths in the folder, each folder before what is in it
    left_out: tuple[str, ...]  # paths; those of folders end with `/`
    outward: tuple[str, ...]  # links that lead out of the folder; they are sent as links
    rules: IgnoreRules

    @property
    def sizes(self) -> dict[str, int]:
        """Return the sizes in bytes of its files, without folders and links."""
        return {name: entry.size for name, entry in self.entries.items() if entry.kind == "f"}


def read_tree(path: str | Path, runs: Path, exclusions: Collection[Path] = ()) -> LocalTree:
    """List the part of a folder that is sent: no runs, and nothing excluded (SpecError)."""
    top = Path(path).resolve()
    if not str(path) or not top.is_dir():
        raise SpecError(
            f"{path or repr(path)} is no folder here.",
            remedy="sync takes a folder. One file: cluster put NAME FILE PATH",
        )
    rules = IgnoreRules(top)
    entries: dict[str, TreeEntry] = {}
    left_out: list[str] = []

    def walk(folder: str, path: str) -> None:
        rules.read(Path(folder), path=path)
        with os.scandir(folder) as entries_there:
            for item in sorted(entries_there, key=lambda item: item.name):
                if entry := _entry(item):
                    is_folder = entry.kind == "d"
                    name = path + item.name + "/" * is_folder
                    stays = is_folder and (stays_here(Path(item), runs) or Path(item) in exclusions)
                    if entry.kind == "?" or stays or item.name == GIT or rules.ignores(name):
                        left_out.append(name)
                        continue
                    entries[path + item.name] = entry
                    if is_folder:
                        walk(item.path, name)

    try:
        walk(str(top), "")
    except OSError as error:
        raise SpecError(
            f"{error.filename or top} could not be read: {error.strerror}.",
            remedy=f"Change its mode, or name it in {top / IGNORE}.",
        ) from error
    links = {name: entry.link for name, entry in entries.items() if entry.kind == "l"}
    outward = tuple(name for name, link in links.items() if _leads_out(name, link))
    return LocalTree(
        path=top, entries=entries, left_out=tuple(left_out), outward=outward, rules=rules
    )


def _entry(item: os.DirEntry[str]) -> TreeEntry | None:
    """Describe a file, a folder, a link, or, with the kind `?`, anything else; None if gone."""
    try:
        status = item.stat(follow_symlinks=False)
        is_link = stat.S_ISLNK(status.st_mode)
        link = os.readlink(item.path) if is_link else ""  # noqa: PTH115 - Path alters `./a`
    except FileNotFoundError:
        return None
    return TreeEntry(
        kind=KINDS.get(stat.S_IFMT(status.st_mode), "?"),
        size=status.st_size,
        time=status.st_mtime_ns,
        mode=stat.S_IMODE(status.st_mode),
        link=link,
    )


def _leads_out(name: str, link: str) -> bool:
    end = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
    return posixpath.isabs(end) or end.split("/")[0] == ".."


_log = logging.getLogger(__name__)
PASSES = 3  # a file that changes while it is sent is sent again
LARGE = 4_000_000  # bytes of a file of which rsync sends only the blocks that differ

T = TypeVar("T")


class SyncReport(SyncFigures, frozen=True, kw_only=True):
    """What `sync` did; its words are those of `print`."""

    def __str__(self) -> str:
        return sync_words(self)


def compare(
    local: Mapping[str, TreeEntry],
    remote: Mapping[str, TreeEntry],
    recent: Collection[str],
    now: float,
) -> tuple[list[str], list[str]]:
    """Return what the host lacks, and files of the same size with another time or mode.

    The times of files in `recent` say nothing, as this `sync` sent them; what was modified since
    `now`, in seconds since the epoch, may change again without a new time.
    """
    lacking, doubtful = [], []
    for name, entry in local.items():
        other = remote.get(name)
        if other is None or _shape(other) != _shape(entry):
            lacking.append(name)
        elif entry.kind == "f" and not (
            entry.mode == other.mode
            and _same_time(entry.time, other.time, now, was_sent=name in recent)
        ):
            doubtful.append(name)
    return lacking, doubtful


def _shape(entry: TreeEntry) -> tuple[str, str, int]:
    return entry.kind, entry.link, entry.size if entry.kind == "f" else 0


def _same_time(local: int, remote: int, now: float, *, was_sent: bool) -> bool:
    """Tell whether two times are the same; archives keep whole seconds (`transfer.pack`)."""
    seconds, other = local // 10**9, remote // 10**9
    if was_sent and other in (seconds, seconds - 1):
        return True
    return local == remote or (remote % 10**9 == 0 and seconds == other and seconds < int(now))


class Sync:
    """One `sync` of a folder to hosts, in passes until nothing differs.

    `read` lists the folder here but for some paths; `there` is the folder on the hosts, as the user
    names it, and `places` as each host's shell takes it.
    """

    def __init__(
        self,
        shells: Mapping[str, Shell],
        name: str,
        read: Callable[[Collection[Path]], LocalTree],
        remote_folder: str,
        places: Mapping[str, str],
    ) -> None:
        self._shells = dict(shells)
        self._places = places
        self._name = name
        self._read = read
        self._remote_folder = remote_folder
        self._failures: dict[str, ClusterError] = {}
        self._sent_names: set[str] = set()
        self._sent_bytes = self._passed_on = 0
        self._removed_names: dict[str, None] = {}
        self._turn = threading.Lock()

    def run(self, *, delete: bool) -> SyncReport:
        """Send what differs, until nothing does or files change again and again."""
        here_too = (name for name, shell in self._shells.items() if shell.name == "local")
        copies = [Path(self._places[name]).resolve() for name in here_too]
        for passes_left in range(PASSES, -1, -1):
            now = time.time()
            local_tree = self._read(copies)
            trees = self._on_hosts(lambda name, sh: host_files.list_tree(sh, self._places[name]))
            lacking = self._prepare(local_tree, trees, now, delete=delete)
            if not any(lacking.values()) or not passes_left:
                break
            self._send(local_tree, trees, lacking)
        results({**dict.fromkeys(self._shells), **self._failures})
        files = {name for name, entry in local_tree.entries.items() if entry.kind != "d"}
        return SyncReport(
            there=self._remote_folder,
            hosts=tuple(self._shells),
            files=len(files),
            sent=len(files & self._sent_names),
            sent_bytes=self._sent_bytes,
            passed_on=self._passed_on,
            removed=tuple(self._removed_names),
            left_out=local_tree.left_out,
            outward=local_tree.outward,
            changed=tuple(dict.fromkeys(name for names in lacking.values() for name in names)),
        )

    def _on_hosts(
        self, do: Callable[[str, Shell], T], hosts: Iterable[str] | None = None
    ) -> dict[str, T]:
        """Call a function for hosts that have not failed; return what did not fail."""
        names = (name for name in (hosts or self._shells) if name not in self._failures)
        ends = try_each({name: self._shells[name] for name in names}, do)
        self._failures |= {n: end for n, end in ends.items() if isinstance(end, ClusterError)}
        return {n: end for n, end in ends.items() if not isinstance(end, ClusterError)}

    def _prepare(
        self, local_tree: LocalTree, trees: Mapping[str, HostTree], now: float, *, delete: bool
    ) -> dict[str, list[str]]:
        """Remove what is in the way, set times and modes; return what each host lacks."""
        differences = {
            host: compare(local_tree.entries, tree.entries, self._sent_names, now)
            for host, tree in trees.items()
        }
        machines = [self._shells[host].machine for host in trees]
        by_rsync = all(t.rsync for t in trees.values()) and all(
            map(host_files.rsync_reaches, machines)
        )
        digests = {
            name: _digest(local_tree.path / name)
            for name in dict.fromkeys(
                name for _, doubtful in differences.values() for name in doubtful
            )
            if local_tree.entries[name].size < LARGE or not by_rsync
        }

        def do(host: str, shell: Shell) -> list[str]:
            missing, doubtful = differences[host]
            names = [name for name in doubtful if name in digests]
            remote_digests = host_files.digests(shell, self._places[host], names)
            equal = [name for name in names if remote_digests.get(name) == digests[name]]
            lines = self._obstacles(local_tree, trees[host], missing, delete=delete)
            lines += _attributes(local_tree, equal)
            if delete:
                lines += self._removals(local_tree, trees[host])
            host_files.edit(shell, self._places[host], lines)
            lacking = {*missing, *doubtful} - {*equal}
            return [name for name in local_tree.entries if name in lacking]

        return self._on_hosts(do, trees)

    def _obstacles(
        self, local_tree: LocalTree, tree: HostTree, missing: Iterable[str], *, delete: bool
    ) -> list[str]:
        """Return commands that remove a folder in the place of something else, or the reverse."""
        remote_kinds = {n: tree.entries[n].kind == "d" for n in missing if n in tree.entries}
        local_kinds = {name: local_tree.entries[name].kind == "d" for name in remote_kinds}
        obstacles = [name for name in remote_kinds if remote_kinds[name] != local_kinds[name]]
        if obstacles and not delete:
            first = obstacles[0]
            remote, local = ("a", "none") if remote_kinds[first] else ("no", "one")
            raise ShellError(
                f"{self._remote_folder}/{first} is {remote} folder on the host, and {local} here.",
                means="sync removes nothing unless it is asked to.",
                remedy="Remove it there, or let sync remove what is not here: --delete",
            )
        within = tuple(f"{obstacle}/" for obstacle in obstacles)
        for name, entry in tree.entries.items():
            if name.startswith(within) and local_tree.rules.protects(name, entry.kind == "d"):
                raise ShellError(
                    f"{self._remote_folder}/{name} is on the host, in the place of a file.",
                    means="It is ignored, as by .gitignore, so sync does not remove it.",
                    remedy="Move it there, and sync again.",
                )
        self._removed_names.update(dict.fromkeys(obstacles))
        return host_files.on_names("rm -rf", obstacles)

    def _removals(self, local_tree: LocalTree, tree: HostTree) -> list[str]:
        """Return commands that remove what is not here, but for what is ignored."""
        extra = {n: e.kind == "d" for n, e in tree.entries.items() if n not in local_tree.entries}
        protects = local_tree.rules.protects
        names = [name for name, is_folder in extra.items() if not protects(name, is_folder)]
        self._removed_names.update(dict.fromkeys(names))
        folders = sorted((name for name in names if extra[name]), reverse=True)
        rmdir = "rmdir --ignore-fail-on-non-empty"  # what is ignored may be in it
        files = [name for name in names if not extra[name]]
        return host_files.on_names("rm -f", files) + host_files.on_names(rmdir, folders)

    def _send(
        self, local_tree: LocalTree, trees: Mapping[str, HostTree], lacking: Mapping[str, list[str]]
    ) -> None:
        """Send to each host what it lacks, from here or from a host that has it."""
        sizes = local_tree.sizes
        weights = {host: sum(sizes.get(n, 0) for n in names) for host, names in lacking.items()}
        self._refuse_full(weights, trees)
        needy = (host for host in lacking if lacking[host] and host not in self._failures)
        targets = sorted(needy, key=weights.__getitem__)
        sources = [host for host in lacking if not lacking[host]]
        savings = sum(weights[host] for host in (targets if sources else targets[1:]))

        def send(host: str, _: Shell) -> None:
            sent_bytes = self._send_from_here(local_tree, host, trees[host], lacking[host])
            with self._turn:
                self._sent_bytes += sent_bytes

        def pull(host: str, shell: Shell, ssh: str) -> None:
            spread.pull_names(shell, ssh, self._places[host], lacking[host])

        alive = {host: self._shells[host] for host in lacking if host not in self._failures}
        if spread.is_worth(alive, savings):
            meeting = spread.Meeting(alive, self._name)
            if not sources:
                sources, targets = [*self._on_hosts(send, targets[:1])], targets[1:]
            if sources:
                failures = meeting.spread({host: alive[host] for host in targets}, sources, pull)
                self._passed_on += sum(weights[host] for host in {*targets} - {*failures})
                targets = [*failures]
        if targets:
            self._on_hosts(send, targets)
        self._sent_names.update(name for names in lacking.values() for name in names)

    def _refuse_full(self, weights: Mapping[str, int], trees: Mapping[str, HostTree]) -> None:
        for host, size in weights.items():
            if size > trees[host].free:
                self._failures[host] = ShellError(
                    f"{self._remote_folder} needs {format_bytes(size)} more on {host}, where "
                    f"{format_bytes(trees[host].free)} are free.",
                    means="Nothing was sent to this host.",
                    remedy=f"Make room there: cluster run {self._name} -- df -h; or sync to "
                    "another disk.",
                )

    def _send_from_here(
        self, local_tree: LocalTree, host: str, tree: HostTree, names: Iterable[str]
    ) -> int:
        """Send files over the line of this machine; return how many bytes that took."""
        shell, place = self._shells[host], self._places[host]
        sizes = local_tree.sizes
        remote_files = {name for name, entry in tree.entries.items() if entry.kind == "f"}
        parts = [n for n in names if n in remote_files and sizes.get(n, 0) >= LARGE]
        sent_bytes = 0
        if parts and shell.machine and host_files.rsync_reaches(shell.machine) and tree.rsync:
            try:
                sent_bytes = host_files.send_by_rsync(shell.machine, local_tree.path, parts, place)
                names = [name for name in names if name not in {*parts}]
            except ShellError as error:
                _log.warning("%s gets large files whole: %s", shell.machine.name, error)
        if whole := [*names]:
            shell.put(local_tree.path, place, only=whole)
        return sent_bytes + sum(sizes.get(name, 0) for name in whole)


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except OSError:  # sending it says why
        return "unreadable"


def _attributes(local_tree: LocalTree, equal: Iterable[str]) -> list[str]:
    """Return commands that set times and modes of files with equal content."""
    times, bits = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    now = int(time.time())
    for name in equal:
        seconds = local_tree.entries[name].time // 10**9
        if seconds < now:  # else it may change yet, within the second
            times[seconds].append(name)
        bits[local_tree.entries[name].mode].append(name)
    touches = (host_files.on_names(f"touch -d @{mtime}", names) for mtime, names in times.items())
    chmods = (host_files.on_names(f"chmod {mode:o}", names) for mode, names in bits.items())
    return [line for lines in (*touches, *chmods) for line in lines]
