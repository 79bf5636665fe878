"""The journal of a cluster: each change is on disk before it is made, and its result after.

One folder per cluster under the state folder (`CLUSTER_STATE`, else `XDG_STATE_HOME/cluster`, else
`~/.local/state/cluster`), with an append-only `journal.jsonl` in it. Any other process can
continue from it.
"""

import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from cluster.core import decoders
from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.hosts import Facts, Machine
from cluster.core.model.jobs import NamedJob
from cluster.core.model.resources import Price
from cluster.core.model.results.records import JobRecord
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state import files
from cluster.core.state.files import make_private, owned_lines, state_folder

_log = logging.getLogger(__name__)
REGIONS_FILE = "regions.jsonl"
INSTANCES = "instances"  # the kind of a request for machines
Version = tuple[int, int, int]  # of a journal; see `Journal.version`
NO_VERSION = (0, 0, 0)


class Intended(Value, frozen=True, kw_only=True, tag="intended"):
    """The machines of this spec are about to be created."""

    spec: ClusterSpec  # what the user asked for
    at: float  # when, in seconds since the epoch
    costs: bool = False  # whether the machines cost money while they exist
    price: Price | None = None  # of one machine, on average over groups, if it is known
    prices: dict[str, Price | None] = {}  # of one machine of each group  # noqa: RUF012
    ttl: float | None = None  # seconds after which the machines end by themselves, if they do


class Owned(Value, frozen=True, kw_only=True, tag="owned"):
    """A launch is about to create resources: who owns them, and how they are found again."""

    provider: str  # that creates them
    region: str  # of the provider
    account: str  # of the owner, as the provider numbers or names it
    owner: str  # the identity that creates them, without the name of its session
    launch: str  # the tag that everything of this launch carries
    expires: float | None = None  # when its machines end by themselves, in seconds since the epoch


class Requested(Value, frozen=True, kw_only=True, tag="requested"):
    """A call that creates a resource is about to be sent."""

    provider: str  # that receives the call
    region: str  # of the provider
    kind: str  # of resource, such as `instances`
    token: str  # by which the provider recognises a repeated call, or the name of the resource
    at: float  # when, in seconds since the epoch


class Answered(Value, frozen=True, kw_only=True, tag="answered"):
    """The provider answered a call."""

    token: str  # of the call
    ids: tuple[str, ...] = ()  # of the resources that were created; none if the call was refused


class Created(Value, frozen=True, kw_only=True, tag="created"):
    """The machines were created, or more is known about them now."""

    machines: tuple[Machine, ...]  # all of them, with what is known about each
    expires: float | None = None  # when they end by themselves, in seconds since the epoch


class Replacing(Value, frozen=True, kw_only=True, tag="replacing"):
    """Machines may exist besides these, which are kept: new ones, or bad ones that are to end."""

    kept: tuple[Machine, ...]


class Replaced(Value, frozen=True, kw_only=True, tag="replaced"):
    """Only the machines that were to be kept exist, since this time in seconds since the epoch."""

    at: float


class Switched(Value, frozen=True, kw_only=True, tag="switched"):
    """The machines were switched off, or on again."""

    on: bool  # true if they were switched on
    at: float  # when, in seconds since the epoch


class Timed(Value, frozen=True, kw_only=True, tag="timed"):
    """The duration of a phase of the launch, in seconds."""

    phase: str
    seconds: float


class LaunchFinished(Value, frozen=True, kw_only=True, tag="launch-finished"):
    """Every machine answered: the launch is over."""


class Proven(Value, frozen=True, kw_only=True, tag="proven"):
    """The hosts were proven before a job started, some of them after they were replaced."""

    at: float  # when, in seconds since the epoch
    hosts: int
    replaced: int
    took: float  # seconds


class Examined(Value, frozen=True, kw_only=True, tag="examined"):
    """The facts of each machine were read; None if they are those of the last time."""

    facts: tuple[Facts, ...] | None
    at: float = 0.0  # when, in seconds since the epoch


class Started(Value, frozen=True, kw_only=True, tag="started"):
    """A job was started."""

    job: JobRecord


class JobStarted(Value, frozen=True, kw_only=True, tag="job-started"):
    """A job with a name is about to be started; an earlier one of this name has ended."""

    job: NamedJob


class Collected(Value, frozen=True, kw_only=True, tag="collected"):
    """A job's files are downloaded; `run` is the folder of its run."""

    run: str


Entry = (
    Intended
    | Owned
    | Requested
    | Answered
    | Created
    | Replacing
    | Replaced
    | Switched
    | Timed
    | LaunchFinished
    | Proven
    | Examined
    | Started
    | JobStarted
    | Collected
)


class UsedRegion(Value, frozen=True, kw_only=True):
    """A region in which something was created once, and may still exist."""

    provider: str  # that created it
    region: str  # of the provider


class Journal(Value, frozen=True, kw_only=True):
    name: str  # of the cluster
    folder: Path  # of the cluster's state

    @property
    def path(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def version(self) -> Version:
        """The inode, size and time of its last change of the file; zeros if there is none."""
        # opened, as NFS caches what stat says
        with suppress(OSError), self.path.open("rb") as file:
            status = os.fstat(file.fileno())
            return status.st_ino, status.st_size, status.st_mtime_ns
        return NO_VERSION

    def append(self, entry: Entry, *, version: Version = NO_VERSION) -> Version:
        """Write an entry to disk; an `Intended` one opens the journal (ClusterError).

        Return the new version if only this entry was added to `version`, else zeros.
        """
        _log.info("%s: %s", self.folder.name, type(entry).__name__)
        with self._writing():
            if isinstance(entry, Intended):
                self._open()
            line, before = msgspec.json.encode(entry) + b"\n", self.version
            files.append(self.path, line, sync=True)
        after = self.version
        return after if before == version and after[1] == before[1] + len(line) else NO_VERSION

    def _open(self) -> None:
        try:
            make_private(self.folder)
        except FileNotFoundError as error:  # as in /proc, where nothing can be made
            raise self._unwritable(error) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self._removed_error() from error
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ClusterError:
        return ClusterError(
            f"The state folder {self.folder} cannot be written: {error.strerror}.",
            means="Without it, a cluster could be lost track of, so nothing was started.",
            remedy="Make it writable, or choose another: CLUSTER_STATE=DIR",
        )

    def entries(self) -> tuple[Entry, ...]:
        """Read all entries, the oldest first; none if there is no such cluster.

        A last line that was cut off by a crash was never acted upon, and is left out. ParseError:
        an entry cannot be read.
        """
        try:
            lines = owned_lines(self.path)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ClusterError(
                f"The state folder {self.folder} cannot be read: {error.strerror}.",
                remedy="Make it readable, or choose another: CLUSTER_STATE=DIR",
            ) from error
        try:
            return tuple(decoders.decode(line, Entry) for line in lines)
        except (msgspec.DecodeError, UnicodeDecodeError, SpecError) as error:
            raise ParseError(
                f"The journal {self.path} cannot be read: {error}",
                remedy="It may come from another version of cluster; move it away.",
            ) from error

    @contextmanager
    def lock(self, part: str = "") -> Iterator[None]:
        """Let one thread at a time, of any process, change resources or `part` of them.

        ClusterError: the cluster is down.
        """
        path = self.folder / part
        owner = (path, threading.get_ident())
        with ExitStack() as until_closed:
            try:
                if owner in _LOCKS:
                    _LOCKS[owner].close()
                file = _LOCKS[owner] = _LockedFile(path, os.O_RDWR | os.O_CREAT if part else 0)
                until_closed.callback(file.close)
                fcntl.flock(file.handle, fcntl.LOCK_EX)
                is_same = os.path.samestat(os.fstat(file.handle), path.stat())
            except FileNotFoundError as error:
                raise self._removed_error() from error
            if not is_same:  # a new cluster of this name has a new folder
                raise self._removed_error()
            yield

    @contextmanager
    def open_for_launch(self, intent: Intended, *, resuming: bool = False) -> Iterator[None]:
        """Open the journal, and mark it as in use while this process lives.

        `resuming` continues an interrupted launch, whose journal exists. SpecError: another process
        is launching a cluster of this name.
        """
        with self._writing():
            self._open()
        with ExitStack() as until_launched:
            with self.lock():
                if not resuming and self.path.exists() and self.entries():
                    raise self.busy_error()
                until_launched.enter_context(self.in_use())
                if not resuming:
                    self.append(intent)
            yield

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let no other process launch the cluster or replace its machines (SpecError: one does)."""
        if self.is_launching():
            raise self.busy_error()
        with (self.folder / "launching").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def busy_error(self) -> SpecError:
        return SpecError(
            f"Another process is launching the cluster {self.name!r} right now, or replaces hosts.",
            means="It is left alone, and nothing was started.",
            remedy=f"Choose another name, or wait until it is up: cluster ls {self.name}",
        )

    def is_launching(self) -> bool:
        return files.is_locked(self.folder / "launching")

    def _removed_error(self) -> ClusterError:
        return ClusterError(
            f"The cluster {self.name!r} was taken down by another process meanwhile.",
            remedy="List what exists: cluster ls",
        )

    def forget(self) -> None:
        """Remove the cluster's state: the last step of taking it down."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _LockedFile:
    def __init__(self, path: Path, flags: int) -> None:
        self.handle = os.open(path, flags, 0o600)

    def close(self) -> None:
        if self.handle >= 0:
            fcntl.flock(self.handle, fcntl.LOCK_UN)  # first: an interrupt may leave it open
            handle, self.handle = self.handle, -1
            os.close(handle)


# By path and thread. Ctrl-C in the last steps of a `with` leaves its lock held, as the traceback
# keeps it alive: a thread that takes a lock again, such as for `down`, would wait for itself.
_LOCKS: dict[tuple[Path, int], _LockedFile] = {}


def for_cluster(name: str) -> Journal:
    """Return the journal of a cluster, which need not exist yet."""
    return Journal(name=name, folder=state_folder() / name)


def entries_of(name: str) -> tuple[Entry, ...]:
    return for_cluster(name).entries()


def pending_since(name: str) -> float:
    """Return when something was last requested whose answer the journal does not have, or 0."""
    entries = entries_of(name)
    tokens = {e.token for e in entries if isinstance(e, Answered)}
    requests = (e for e in entries if isinstance(e, Requested))
    return max((e.at for e in requests if e.token not in tokens), default=0.0)


def exists(name: str) -> bool:
    return for_cluster(name).path.is_file()


def names() -> tuple[str, ...]:
    """List the clusters that have a journal, the one launched last first."""
    paths = state_folder().glob("*/journal.jsonl")
    clusters = [path.parent.name for path in paths if path.is_file()]
    return tuple(sorted(clusters, key=_launch_time, reverse=True))


def remember_region(provider: str, region: str) -> None:
    """Record permanently that a provider is about to create something in a region."""
    if region not in used_regions(provider):
        entry = UsedRegion(provider=provider, region=region)
        make_private(state_folder())
        files.append(state_folder() / REGIONS_FILE, msgspec.json.encode(entry) + b"\n", sync=True)


def used_regions(provider: str) -> tuple[str, ...]:
    """Return the regions in which a provider ever created anything, also for deleted clusters."""
    try:
        text = (state_folder() / REGIONS_FILE).read_bytes()
    except OSError:
        return ()
    entries = [decoders.decode(line, UsedRegion) for line in files.complete_lines(text)]
    return tuple(dict.fromkeys(entry.region for entry in entries if entry.provider == provider))


def _launch_time(name: str) -> float:
    try:
        return max(
            (e.at for e in for_cluster(name).entries() if isinstance(e, Intended)), default=0.0
        )
    except ClusterError:
        return 0.0
