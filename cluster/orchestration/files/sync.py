"""sync: bring a folder of hosts to the state of one here, by sending what differs."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from cluster.agent.working_copy import sha256
from cluster.core.errors import ClusterError, ShellError
from cluster.core.model.sync import SyncFigures
from cluster.core.units import format_bytes
from cluster.orchestration.files.tree import LocalTree
from cluster.remote import host_files, rsync, spread
from cluster.remote.host_files import HostTree, TreeEntry
from cluster.remote.parallel import results, try_each
from cluster.remote.shells import Shell
from cluster.reports.words.outcomes import sync_words

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
    """Return what the host lacks, and files of the same size there, but another time or mode.

    The times of files in `recent` say nothing, as this `sync` sent them; what was modified since
    `now`, in seconds since the epoch, may change without another time.
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
        there: str,
        places: Mapping[str, str],
    ) -> None:
        self._shells = dict(shells)
        self._places = places
        self._name = name
        self._read = read
        self._remote_folder = there
        self._failed: dict[str, ClusterError] = {}
        self._sent: set[str] = set()
        self._sent_bytes = self._passed_on = 0
        self._removed: dict[str, None] = {}
        self._turn = threading.Lock()

    def run(self, *, delete: bool) -> SyncReport:
        """Send what differs, until nothing does or files change again and again."""
        here_too = (name for name, shell in self._shells.items() if shell.name == "local")
        copies = [Path(self._places[name]).resolve() for name in here_too]
        for passes_left in range(PASSES, -1, -1):
            now = time.time()
            local_tree = self._read(copies)
            trees = self._each(lambda name, sh: host_files.list_tree(sh, self._places[name]))
            lacking = self._prepare(local_tree, trees, now, delete=delete)
            if not any(lacking.values()) or not passes_left:
                break
            self._send(local_tree, trees, lacking)
        results({**dict.fromkeys(self._shells), **self._failed})
        files = {name for name, entry in local_tree.entries.items() if entry.kind != "d"}
        return SyncReport(
            there=self._remote_folder,
            hosts=tuple(self._shells),
            files=len(files),
            sent=len(files & self._sent),
            sent_bytes=self._sent_bytes,
            passed_on=self._passed_on,
            removed=tuple(self._removed),
            left_out=local_tree.left_out,
            outward=local_tree.outward,
            changed=tuple(dict.fromkeys(name for names in lacking.values() for name in names)),
        )

    def _each(
        self, do: Callable[[str, Shell], T], hosts: Iterable[str] | None = None
    ) -> dict[str, T]:
        """Call a function for hosts that have not failed; return what did not fail."""
        chosen = (name for name in (hosts or self._shells) if name not in self._failed)
        ended = try_each({name: self._shells[name] for name in chosen}, do)
        self._failed |= {n: end for n, end in ended.items() if isinstance(end, ClusterError)}
        return {n: end for n, end in ended.items() if not isinstance(end, ClusterError)}

    def _prepare(
        self, local_tree: LocalTree, trees: Mapping[str, HostTree], now: float, *, delete: bool
    ) -> dict[str, list[str]]:
        """Remove what is in the way, set times and modes; return what each host lacks."""
        differences = {
            host: compare(local_tree.entries, tree.entries, self._sent, now)
            for host, tree in trees.items()
        }
        machines = [self._shells[host].machine for host in trees]
        by_rsync = all(t.rsync for t in trees.values()) and all(map(rsync.reaches, machines))
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

        return self._each(do, trees)

    def _obstacles(
        self, local_tree: LocalTree, tree: HostTree, missing: Iterable[str], *, delete: bool
    ) -> list[str]:
        """Return commands that remove a folder in the place of something else, or the reverse."""
        remote_kinds = {
            name: tree.entries[name].kind == "d" for name in missing if name in tree.entries
        }
        local_kinds = {name: local_tree.entries[name].kind == "d" for name in remote_kinds}
        obstacles = [name for name in remote_kinds if remote_kinds[name] != local_kinds[name]]
        if obstacles and not delete:
            first = obstacles[0]
            there, here = ("a", "none") if remote_kinds[first] else ("no", "one")
            raise ShellError(
                f"{self._remote_folder}/{first} is {there} folder on the host, and {here} here.",
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
        self._removed.update(dict.fromkeys(obstacles))
        return host_files.on_names("rm -rf", obstacles)

    def _removals(self, local_tree: LocalTree, tree: HostTree) -> list[str]:
        """Return commands that remove what is not here, but for what is ignored."""
        extra = {
            name: e.kind == "d"
            for name, e in tree.entries.items()
            if name not in local_tree.entries
        }
        removed = [
            name
            for name, is_folder in extra.items()
            if not local_tree.rules.protects(name, is_folder)
        ]
        self._removed.update(dict.fromkeys(removed))
        folders = sorted((name for name in removed if extra[name]), reverse=True)
        rmdir = "rmdir --ignore-fail-on-non-empty"  # what is ignored may be in it
        files = [name for name in removed if not extra[name]]
        return host_files.on_names("rm -f", files) + host_files.on_names(rmdir, folders)

    def _send(
        self, local_tree: LocalTree, trees: Mapping[str, HostTree], lacking: Mapping[str, list[str]]
    ) -> None:
        """Send to each host what it lacks, from here or from a host that has it."""
        sizes = local_tree.sizes
        weights = {host: sum(sizes.get(n, 0) for n in names) for host, names in lacking.items()}
        self._refuse_full(weights, trees)
        needy = (host for host in lacking if lacking[host] and host not in self._failed)
        targets = sorted(needy, key=weights.__getitem__)
        sources = [host for host in lacking if not lacking[host]]
        saved = sum(weights[host] for host in (targets if sources else targets[1:]))

        def send(host: str, _: Shell) -> None:
            sent_bytes = self._send_from_here(local_tree, host, trees[host], lacking[host])
            with self._turn:
                self._sent_bytes += sent_bytes

        def pull(host: str, shell: Shell, ssh: str) -> None:
            spread.pull_names(shell, ssh, self._places[host], lacking[host])

        alive = {host: self._shells[host] for host in lacking if host not in self._failed}
        if spread.is_worth(alive, saved):
            meeting = spread.Meeting(alive, self._name)
            if not sources:
                sources, targets = [*self._each(send, targets[:1])], targets[1:]
            if sources:
                failed = meeting.spread({host: alive[host] for host in targets}, sources, pull)
                self._passed_on += sum(weights[host] for host in {*targets} - {*failed})
                targets = [*failed]
        if targets:
            self._each(send, targets)
        self._sent.update(name for names in lacking.values() for name in names)

    def _refuse_full(self, weights: Mapping[str, int], trees: Mapping[str, HostTree]) -> None:
        for host, size in weights.items():
            if size > trees[host].free:
                self._failed[host] = ShellError(
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
        if parts and shell.machine and rsync.reaches(shell.machine) and tree.rsync:
            try:
                sent_bytes = rsync.send(shell.machine, local_tree.path, parts, place)
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
    touches = (host_files.on_names(f"touch -d @{at}", names) for at, names in times.items())
    chmods = (host_files.on_names(f"chmod {mode:o}", names) for mode, names in bits.items())
    return [line for lines in (*touches, *chmods) for line in lines]
