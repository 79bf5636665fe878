"""The state of a cluster: its journal, folded into one frozen value, and the journal on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce

from msgspec.structs import asdict, replace

from cluster.core.errors import SpecError
from cluster.core.model.hosts import Facts, Machine
from cluster.core.model.jobs import NamedJob
from cluster.core.model.resources import Plan, Price, Receipt
from cluster.core.model.results.records import JobRecord
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.state.journal import Entry
from cluster.core.text.units import dollars
from cluster.providers import Provider, ReportsStates
from cluster.reports.words.outcomes import outcome_words


class ClusterState(Value, frozen=True, kw_only=True):
    """Everything that is known about a cluster."""

    spec: ClusterSpec
    at: float  # when its launch began, in seconds since the epoch
    costs: bool = False
    price: Price | None = None
    prices: dict[str, Price | None] = {}  # noqa: RUF012
    # seconds after which the machines end by themselves; None if they do not
    ttl: float | None = None
    machines: tuple[Machine, ...] = ()
    expires: float | None = None  # when the machines end by themselves, in seconds since the epoch
    launched: bool = False
    # seconds that each phase of the launch took
    phases: dict[str, float] = {}  # noqa: RUF012 - msgspec copies an empty default
    facts: tuple[Facts, ...] = ()
    owned: journal.Owned | None = None  # by whom, and until when; none where machines cost nothing
    examined_at: float = 0.0  # when the facts were read, in seconds since the epoch
    proven: journal.Proven | None = None
    is_proven: bool = False  # the machines are those that were, and were not switched off since
    # when each call that creates resources was first sent, by its token, in seconds since the epoch
    create_calls: dict[str, float] = {}  # noqa: RUF012
    obtained: int = 0
    # when the machines were switched on, off, on ..., in seconds since the epoch
    power: tuple[float, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    named_jobs: dict[str, NamedJob] = {}  # noqa: RUF012
    collected: frozenset[str] = frozenset()
    ended_at: float | None = None  # when the last machine had ended, in seconds since the epoch
    ended: int = 0
    # the machines to keep while some are being replaced; empty at all other times
    machines_to_keep: tuple[Machine, ...] = ()
    # the facts of machines that were examined before or during a replacement, by id
    facts_by_id: dict[str, Facts] = {}  # noqa: RUF012
    # how many machines exist besides the hosts of the cluster, while some are replaced
    extra_machines: int = 0
    extra_since: float = 0.0  # when they were requested, in seconds since the epoch
    # for how many seconds such machines existed in earlier replacements, all together
    extra_seconds: float = 0.0

    @classmethod
    def from_entries(cls, entries: Iterable[Entry]) -> ClusterState | None:
        """Fold the entries of a journal, the oldest first; None without a launch."""
        rest = iter(entries)
        for entry in rest:
            if isinstance(entry, journal.Intended):
                state = cls(spec=entry.spec, at=entry.at).after(entry)
                return reduce(cls.after, rest, state)
        return None

    def after(self, entry: Entry) -> ClusterState:
        """Return the state after one more entry of the journal."""
        match entry:
            case journal.Intended() | journal.Created():
                return replace(self, **asdict(entry))
            case journal.LaunchFinished():
                return replace(self, launched=True)
            case journal.Timed():
                return replace(self, phases={**self.phases, entry.phase: entry.seconds})
            case journal.Examined():
                facts = self.facts if entry.facts is None else entry.facts
                return replace(self, facts=facts, examined_at=entry.at)
        return self._after_job(entry)

    def _after_job(self, entry: Entry) -> ClusterState:
        match entry:
            case journal.Started():
                return replace(self, jobs=(*self.jobs, entry.job))
            case journal.JobStarted():
                return replace(self, named_jobs={**self.named_jobs, entry.job.name: entry.job})
            case journal.Collected():
                return replace(self, collected=self.collected | {entry.run})
            case journal.Replacing():
                return replace(self, machines_to_keep=entry.kept, facts_by_id=self._known_facts)
            case journal.Replaced():
                return self._after_replacement(entry.at)
        return self._after_order(entry)

    def _after_order(self, entry: Entry) -> ClusterState:
        """Note when machines were requested and switched: the cost counts from the request."""
        match entry:
            case journal.Requested(kind=journal.INSTANCES):
                return replace(self, create_calls={entry.token: entry.at, **self.create_calls})
            case journal.Answered() if entry.token in self.create_calls:
                return self._after_answer(len(entry.ids), self.create_calls[entry.token])
            case journal.Owned():
                return replace(self, owned=entry)
            case journal.Switched():
                return replace(self, power=(*self.power, entry.at), is_proven=False)
            case journal.Proven():
                return replace(self, proven=entry, is_proven=True)
        return self

    def _after_answer(self, count: int, timestamp: float) -> ClusterState:
        """Note how many machines were created, of a call that was sent at a time."""
        if self.machines_to_keep:
            return replace(self, extra_machines=count, extra_since=timestamp)
        if not count:
            return self
        before = self.obtained if self.spec.groups else 0  # of other groups, or zones
        total = min(self.spec.hosts, before + count)
        return replace(self, obtained=total, power=self.power or (timestamp,))

    def _after_replacement(self, timestamp: float) -> ClusterState:
        """Take the machines that were kept, and what is known about each."""
        facts_of, ids = self._known_facts, {machine.id for machine in self.machines_to_keep}
        return replace(
            self,
            machines=self.machines_to_keep,
            facts=tuple(facts_of[machine.id] for machine in self.machines_to_keep)
            if ids <= facts_of.keys()
            else (),
            machines_to_keep=(),
            facts_by_id={},
            is_proven=False,
            extra_machines=0,
            extra_seconds=self.extra_seconds + self._added_seconds(timestamp),
        )

    @property
    def _known_facts(self) -> dict[str, Facts]:
        """The facts of each machine that was examined, by its id."""
        if len(self.facts) != len(self.machines):
            return self.facts_by_id
        facts = {machine.id: fact for machine, fact in zip(self.machines, self.facts, strict=True)}
        return {**self.facts_by_id, **facts}

    def _added_seconds(self, timestamp: float) -> float:
        return self.extra_machines * (timestamp - self.extra_since)

    def after_end(self, timestamp: float, count: int = 0) -> ClusterState:
        """Return the state when everything had ended by a time, in seconds since the epoch.

        `count` machines had ended before, at an unknown time; they count until `expires`.
        """
        if count and count == len(self.machines) and self.expires:
            timestamp = min(timestamp, self.expires)
        return replace(self, ended_at=timestamp, jobs=(), ended=count)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def open_jobs(self) -> tuple[JobRecord, ...]:
        """The jobs whose results were not downloaded yet, the newest last."""
        return tuple(job for job in self.jobs if job.run not in self.collected)

    @property
    def plan(self) -> Plan:
        """The plan of a second launch of the same spec: it creates nothing, at the known price."""
        count = len(self.machines)
        price = [self.price.hourly * count] if self.price else []
        line = outcome_words("exists_at" if price else "exists", self.name, count, *price)
        link = next((machine.link for machine in self.machines if machine.link), None)
        return Plan(
            lines=(line,), costs=self.costs, exists=True, price=self.price, ttl=self.ttl, link=link
        )

    def was_launched_as(self, spec: ClusterSpec) -> bool:
        """Return whether this spec was launched, and all its machines have answered."""
        return spec == self.spec and self.launched

    def is_unfinished(self, spec: ClusterSpec) -> bool:
        """Return whether the launch of this spec was interrupted, and can be continued."""
        return spec == self.spec and not self.launched

    @property
    def is_off(self) -> bool:
        return bool(self.power) and len(self.power) % 2 == 0

    def has_expired(self, timestamp: float) -> bool:
        """Return whether the TTL is over at a time in seconds since the epoch."""
        return self.expires is not None and 0 < self.expires < timestamp

    def receipt(self, timestamp: float) -> Receipt | None:
        """Return the cost of machines that cost money or were proven, until a time (epoch)."""
        if not (self.power or self.proven):
            return None
        times = [*(self.power or (self.at,)), self.ended_at or timestamp]
        seconds = sum(end - start for start, end in zip(times[::2], times[1::2], strict=False))
        hosts = len(self.machines) or self.obtained
        extra = self.extra_seconds + self._added_seconds(self.ended_at or timestamp)
        cost = None if self.price is None else dollars(self.price, 1, hosts * seconds + extra)
        return Receipt(
            hosts=hosts,
            seconds=seconds,
            price=self.price,
            dollars=cost if self.power else 0.0,
            final=self.ended_at is not None,
            ended=self.ended,
            proven=self.proven.hosts if self.proven else 0,
            replaced=self.proven.replaced if self.proven else 0,
        )


def machine_states(provider: Provider, state: ClusterState) -> tuple[str, ...]:
    """Ask a provider for the state of each machine that costs money (ProvisionError)."""
    if not (isinstance(provider, ReportsStates) and state.costs and state.machines):
        return ()
    return provider.states(state.name, state.machines)


class StateOnDisk:
    """A cluster's journal, and the state folded from it (SpecError: no launch is in it).

    `state` is as of the last entry that this process read or wrote.
    """

    state: ClusterState

    def __init__(self, journal_: journal.Journal) -> None:
        self.journal = journal_
        self._version = journal.NO_VERSION
        self._changing = threading.RLock()  # what one thread reads, another may just write
        self.refresh()

    def record(self, entry: Entry) -> None:
        """Write an entry, and update the state (ClusterError: another took the cluster down)."""
        with self._changing:
            self._version = self.journal.append(entry, version=self._version)
            self.state = self.state.after(entry)

    def record_if_up(self, entry: Entry) -> None:
        """Update the state by an entry; write it unless another process took the cluster down."""
        if self.journal.path.exists():
            self.record(entry)
        else:
            self.state = self.state.after(entry)

    def end(self, timestamp: float, count: int = 0) -> None:
        """Note when the machines were gone, in epoch seconds; the journal goes with them."""
        self.state = self.state.after_end(timestamp, count)

    def note_machines(self, machines: Iterable[Machine]) -> None:
        self.record(journal.Created(machines=tuple(machines), expires=self.state.expires))

    def refresh(self) -> ClusterState:
        """Read what others, such as the provider, have written into the journal."""
        with self._changing:
            version = self.journal.version
            if not any(version) or version != self._version:
                state = ClusterState.from_entries(self.journal.entries())
                if state is None:
                    name = self.journal.name
                    raise SpecError(
                        f"There is no cluster {name!r}.", remedy="List them: cluster ls"
                    )
                self.state, self._version = state, version
            return self.state

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from changing the cluster; read their changes (ClusterError)."""
        with self.journal.lock():
            self.refresh()
            yield
