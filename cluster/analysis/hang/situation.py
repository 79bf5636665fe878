"""All that is known of a job, joined by rank, and the collectives that are waited in."""

import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import msgspec

from cluster.core.model.hang import (
    Cause,
    Confidence,
    Frame,
    Membership,
    Operation,
    ProcessState,
    Snapshot,
    Straggler,
    Stuck,
)
from cluster.core.model.value import Value

ONCE = 30.0, 10.0  # a wait is long: its seconds, and times the longest pause between collectives
TWICE = 10.0, 3.0  # the same, if a second look found that nothing went on
APART = 1.0  # seconds, after which a second snapshot of one source is a later one
COLLECTIVES = "torch/distributed/distributed_c10d.py"
Key = tuple[str, tuple[int, ...]]  # of a group: its name, and its ranks, as names are used twice
_ENDED: tuple[ProcessState, ...] = ("gone", "stopped")  # it enters nothing
_RECORDERS = {"flight_recorder", "mpi_calls", "nccl_inspector"}
_SILENT = ("dead", "unreachable", "unresponsive")
_GONE: tuple[ProcessState, ...] = ("gone", "dead", "unreachable", "stopped", "disk", "unresponsive")
OF_COMMUNICATORS = ("nccl_ras", "nccl_inspector")  # the sources that have such ranks


class Situation(Value, frozen=True, kw_only=True):
    """What is known."""

    views: tuple[Snapshot, ...]  # of each rank all that its newest snapshots say, by rank
    stalls: tuple[Stuck, ...]  # the one that explains the others first
    root: tuple[int, ...] = ()  # ranks that wait for nobody, and for which others wait
    wait: float = 0.0  # seconds; 0 if not known
    long: bool = False  # longer than collectives of this job take
    rate: float = 0.0  # collectives per second
    progress: bool = False  # between two snapshots
    is_static: bool = False  # there are two snapshots, and nothing went on between them
    moving: bool = False  # some ranks went on between them
    is_settled: bool = False  # no rank of the first of `stalls` went on between them
    unread: tuple[int, ...] = ()  # ranks of which no source says what they have entered
    earlier: tuple[Snapshot, ...] = ()  # as `views`, of the sources that have looked twice

    @property
    def complete(self) -> bool:
        """Whether no rank is unread that others may wait for."""
        unseen = {rank for stall in self.stalls for rank in stall.unseen}
        has_all = all(stall.has_members and stall.group for stall in self.stalls)
        return has_all and not self.unread and unseen <= {*self.in_state(*_ENDED)}

    @property
    def laggards(self) -> set[int]:
        """The ranks that others wait for, or may wait for."""
        return {rank for stall in self.stalls for rank in (*stall.absent, *stall.unseen)}

    def view(self, rank: int) -> Snapshot:
        index = bisect_left(self.views, rank, key=lambda view: view.rank)
        views = self.views[index : index + 1]
        return views[0] if views and views[0].rank == rank else Snapshot(source="", rank=rank)

    def straggler(self, rank: int) -> Straggler:
        view = self.view(rank)
        pending = [operation for operation in view.operations if not operation.done]
        return Straggler(
            rank=rank,
            host=view.host,
            pid=view.pid,
            state=view.state,
            wchan=view.wchan or next(iter(view.kernel), ""),
            call=view.call,
            frame=own_frame(view.stack or view.native),
            operation=pending[0] if pending else None,
            file=view.files[0] if view.files else "",
        )

    def in_state(self, *states: ProcessState) -> list[int]:
        """Return the ranks whose process is in one of these states."""
        return [view.rank for view in self.views if view.state in states]

    def blocked_in(self, state: ProcessState) -> list[int]:
        """Return the ranks in a state, at both looks, that may keep others waiting."""
        before = {view.rank: view.state for view in self.earlier if view.state}
        return [
            rank
            for rank in self.in_state(state)
            if before.get(rank, state) == state and (not self.root or rank in self.laggards)
        ]

    def cause(
        self, ranks: Sequence[int], confidence: Confidence, *, hard: bool = False
    ) -> Cause | None:
        """Return ranks as the cause of what is waited in; None without any."""
        if not ranks:
            return None
        return Cause(
            stragglers=tuple(map(self.straggler, ranks)),
            stuck=self.stalls[0] if self.stalls else None,
            confidence=confidence,
            hard=hard,
        )


def own_frame(stack: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the program itself, not of the libraries that it waits in."""
    frames = [frame for frame in stack if not _is_library(frame.file)]
    return next(iter(frames or stack), None)


def _is_library(file: str) -> bool:
    """Tell whether it is of a package, of C or of Python, whose path py-spy shortens."""
    module = file.partition("/")[0].removesuffix(".py")
    is_package = "site-packages" in file or "/lib/python" in file
    is_object = file.endswith(".so") or ".so." in file
    return is_package or is_object or module in sys.stdlib_module_names


def join_snapshots(snapshots: Sequence[Snapshot]) -> Situation:
    """Join snapshots by rank; look for what went on between earlier and later ones."""
    before, views = map(_views, _first_and_last(with_ranks(snapshots)))
    further = _further(before, views)
    stalls = _stalls(views, further)
    root, order = _root(stalls, views)
    earlier = _stalls(before, {})
    now = {*map(_place, stalls)}
    lasting = {*map(_place, earlier)} & now
    has_ended = any(
        _place(op) not in now and any(further.get(rank) for rank in op.waiting) for op in earlier
    )
    has_progress = bool(further) and (has_ended or all(further.values()))
    is_static = bool(further) and (bool(lasting) or not any(further.values()))
    gap, rate = _pace(views)
    wait = max((stall.waited for stall in order), default=0.0)
    # Without a group, two stacks may be alike by chance.
    if is_static and not wait and any(stall.group for stall in order):
        wait = max(0.0, _last(views) - _last(before))
    least, gaps = TWICE if is_static else ONCE
    long = wait >= max(least, gaps * gap)
    if has_progress:
        rate = min(_rates(before, views), default=0.0) or rate
    return Situation(
        views=views,
        stalls=order,
        root=root,
        wait=wait,
        long=long,
        rate=rate,
        progress=has_progress and not long,
        is_static=is_static,
        moving=any(further.values()),
        is_settled=is_static and _is_settled(order, lasting, further),
        unread=_unread(views),
        earlier=before,
    )


def _first_and_last(snapshots: Iterable[Snapshot]) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the earliest of each rank and source that is old enough, and all that are latest."""
    groups: dict[tuple[int, str], list[Snapshot]] = defaultdict(list)
    for snapshot in snapshots:
        groups[snapshot.rank, snapshot.source].append(snapshot)
    series = [sorted(several, key=lambda snapshot: snapshot.at) for several in groups.values()]
    first = [several[0] for several in series if several[-1].at - several[0].at >= APART]
    return first, [several[-1] for several in series]


def _is_settled(
    stalls: Sequence[Stuck], lasting: Collection[object], further: Mapping[int, bool]
) -> bool:
    """Tell whether the first was waited in before, and those that are absent entered nothing."""
    return any(
        _place(top) in lasting
        and {*top.waiting, *top.absent} <= {*further}
        and not any(further[rank] for rank in top.absent)
        for top in stalls[:1]
    )


def _last(views: Sequence[Snapshot]) -> float:
    return max(view.at for view in views)


def _further(before: Sequence[Snapshot], views: Sequence[Snapshot]) -> dict[int, bool]:
    ahead = {view.rank: _far(view) for view in views}
    return {
        view.rank: any(ahead.get(view.rank, {}).get(key, 0) > n for key, n in _far(view).items())
        for view in before
        if view.operations or view.counts
    }


def _rates(before: Sequence[Snapshot], views: Sequence[Snapshot]) -> Iterator[float]:
    """Return how many collectives per second each rank that went on has entered since."""
    later = {view.rank: view for view in views}
    for view in before:
        after = later[view.rank]
        steps = max((_far(after).get(key, n) - n for key, n in _far(view).items()), default=0)
        if after.at > view.at and steps > 0:
            yield steps / (after.at - view.at)


def _unread(views: Sequence[Snapshot]) -> tuple[int, ...]:
    """Return the ranks of which no source that answers says what they enter, and which may."""
    ranks = {rank for view in views for group in view.groups for rank in group.ranks}
    for view in views:
        has_entered = view.operations or view.counts or any(group.group for group in view.groups)
        is_read = has_entered and view.state not in _SILENT
        ranks.add(view.rank)
        if is_read or view.state in _ENDED:
            ranks.discard(view.rank)
    return tuple(sorted(ranks))


def _views(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Join the sources of each rank."""
    sources: dict[int, list[Snapshot]] = defaultdict(list)
    for snapshot in sorted(snapshots, key=lambda s: s.source != "processes"):  # hosts by name
        sources[snapshot.rank].append(snapshot)
    views = tuple(_join(sources[rank]) for rank in sorted(sources))
    calls = {view.rank: _call(view.stack) for view in views if view.stack}
    names = {*calls.values()} - {""}
    if len(names) != 1 or any(view.operations or view.counts for view in views):
        return views
    return tuple(
        msgspec.structs.replace(view, operations=(_operation(view.stack, calls[view.rank]),))
        if view.rank in calls
        else view
        for view in views
    )


def _operation(stack: Sequence[Frame], name: str) -> Operation:
    frame = own_frame(stack)
    place = f"{frame.file}:{frame.line} in {frame.function}" if frame else ""
    return Operation(group="", number=int(bool(name)), name=name, done=not name, place=place)


def _call(stack: Sequence[Frame]) -> str:
    names = [frame.function for frame in stack if frame.file.endswith(COLLECTIVES)]
    return names[-1] if names else ""


def _join(sources: Sequence[Snapshot]) -> Snapshot:
    """Join what several sources say of one rank: every list, and the first of single values."""
    columns = {
        name: [getattr(source, name) for source in sources] for name in Snapshot.__struct_fields__
    }
    lists = ("operations", "groups", "counts", "files", "full", "threads")
    first = {name: next(filter(None, values), values[0]) for name, values in columns.items()}
    state = next((word for word in _GONE if word in columns["state"]), first["state"])
    times = [source.at for source in sources if source.operations]
    return Snapshot(
        **first
        | {name: tuple(chain.from_iterable(columns[name])) for name in lists}
        | {"source": ",".join(sorted(columns["source"])), "rank": sources[0].rank}
        | {
            "at": min(times, default=max(columns["at"])),
            "state": state,
            "pause": max(columns["pause"]),
        }
    )


def _members(views: Sequence[Snapshot]) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the ranks of the group that a name means for a rank: the largest that holds it."""
    groups = {(group.group, group.ranks) for view in views for group in view.groups}
    by_size = sorted(groups, key=lambda group: (len(group[1]), group))
    return {(name, rank): ranks for name, ranks in by_size for rank in ranks}


def _groups(views: Sequence[Snapshot]) -> list[tuple[Key, dict[int, int], dict[int, Operation]]]:
    """Return how far the ranks of each group have come, and the first that is not done of each."""
    members = _members(views)
    numbers: dict[Key, dict[int, int]] = defaultdict(dict)
    pending: dict[Key, dict[int, Operation]] = defaultdict(dict)
    for view in views:
        for operation in view.operations:
            if operation.peer >= 0:
                continue
            key = operation.group, members.get((operation.group, view.rank), ())
            numbers[key][view.rank] = max(numbers[key].get(view.rank, 0), operation.number)
            first = pending[key].get(view.rank)
            if not operation.done and (first is None or operation.number < first.number):
                pending[key][view.rank] = operation
    for key, progress in numbers.items():
        ranks = {*key[1]} or ({view.rank for view in views} if (len(numbers) == 1) else set())
        recorders = set.intersection(*(_recorders(view) for view in views if view.rank in progress))
        for view in views:
            is_read = _recorders(view) >= recorders if recorders else bool(view.operations)
            if is_read and view.rank in ranks and not view.partial:
                progress.setdefault(view.rank, 0)
    return [(key, progress, pending[key]) for key, progress in numbers.items()]


def _recorders(view: Snapshot) -> set[str]:
    return _RECORDERS.intersection(view.source.split(","))


def _stalls(views: Sequence[Snapshot], twice: Collection[int]) -> list[Stuck]:
    """Find what is waited in; `twice` are ranks that have been looked at before."""
    times = {view.rank: view.at for view in views}
    groups = [_of_operations(*group, times, twice) for group in _groups(views)]
    stalls = [*filter(None, groups), *_of_messages(views)]
    return stalls or list(_of_counts(views))


def _of_operations(
    key: Key,
    numbers: dict[int, int],
    pending: dict[int, Operation],
    times: Mapping[int, float],
    twice: Collection[int],
) -> Stuck | None:
    """Return what a group waits in; a rank that was last read before that began is unseen."""
    if not pending:
        return None
    number = min(operation.number for operation in pending.values())
    waiting = sorted(rank for rank, operation in pending.items() if operation.number == number)
    first = next(operation for operation in pending.values() if operation.number == number)
    names = Counter(pending[rank].name for rank in pending if rank in waiting)
    starts = {rank: pending[rank].since for rank in waiting if pending[rank].since}
    since = min(starts.values(), default=0.0)
    laggards = {rank for rank, last in numbers.items() if last < number}
    older = {rank for rank in laggards if times[rank] < since and rank not in twice}
    return Stuck(
        group=key[0],
        number=number,
        name=names.most_common(1)[0][0],
        waiting=tuple(waiting),
        absent=tuple(sorted(laggards - older)),
        ended=tuple(sorted(r for r, n in numbers.items() if n >= number and r not in waiting)),
        unseen=tuple(sorted(older.union(key[1]) - (numbers.keys() - older))),
        has_members=bool(key[1]),
        since=since,
        waited=max((times[rank] - start for rank, start in starts.items()), default=0.0),
        place=first.place,
    )


def _of_messages(views: Sequence[Snapshot]) -> Iterator[Stuck]:
    """Find messages that one rank waits for and the other has not sent, or not received."""
    members = _members(views)
    counts: Counter[tuple[str, int, int, str]] = Counter()
    waits: list[tuple[int, int, int, Operation, float]] = []
    for view in views:
        messages = [message for message in view.operations if message.peer >= 0]
        first = next((message.number for message in messages if not message.done), None)
        for message in messages:
            ranks = members.get((message.group, view.rank), ())
            peer = ranks[message.peer] if message.peer < len(ranks) else -1
            counts[message.group, view.rank, peer, message.name[:4]] += 1
            nth = counts[message.group, view.rank, peer, message.name[:4]]
            if not message.done and message.number == first:
                waits.append((view.rank, peer, nth, message, view.at - message.since))
    readable_ranks = {view.rank for view in views if view.operations and not view.partial}
    for rank, peer, nth, message, wait in waits:
        kind = "recv" if message.name.startswith("send") else "send"
        is_read = {rank, peer} <= readable_ranks
        is_mutual = is_read and counts[message.group, peer, rank, kind] >= nth
        yield Stuck(
            group=message.group,
            number=message.number,
            name=message.name,
            waiting=(rank, peer) if is_mutual else (rank,),
            absent=(peer,) if is_read and not is_mutual else (),
            unseen=() if is_read or peer < 0 else (peer,),
            has_members=peer >= 0,
            since=message.since,
            waited=wait,
            place=message.place,
        )


def _of_counts(views: Sequence[Snapshot]) -> Iterator[Stuck]:
    """Find collectives that some have launched and others have not, by counts alone."""
    members = _members(views)
    counts: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for view in views:
        for count in view.counts:
            counts[count.group, count.name][view.rank] = count.entered
    for (group, name), progress in counts.items():
        least, most = min(progress.values()), max(progress.values())
        ranks = members.get((group, min(progress)), ())
        unseen = tuple(rank for rank in ranks if rank not in progress)
        if least < most or unseen:
            number = least + 1 if least < most else most
            yield Stuck(
                group=group,
                number=number,
                name=name,
                waiting=tuple(sorted(rank for rank, n in progress.items() if n >= number)),
                absent=tuple(sorted(rank for rank, n in progress.items() if n < number)),
                unseen=unseen,
                has_members=bool(ranks),
            )


def _root(
    stalls: Sequence[Stuck], views: Sequence[Snapshot]
) -> tuple[tuple[int, ...], tuple[Stuck, ...]]:
    """Return the ranks for which others wait and which wait for nobody, and where that begins.

    A rank that is absent from one may wait in another, or for one other rank; the chain ends at
    the cause.
    """
    waiting = {rank for stall in stalls for rank in stall.waiting}
    free = {rank for op in stalls for rank in (*op.absent, *op.unseen) if rank not in waiting}

    def weight(stall: Stuck) -> tuple[bool, bool, float, int]:
        absent = {*stall.absent, *stall.unseen}
        return (not absent & free, not absent, stall.since, -len(stall.waiting))

    order = tuple(sorted(stalls, key=weight))
    if not order:
        return (), ()
    first = order[0]
    in_call = {view.rank for view in views if view.call}
    culprits = [r for r in first.absent if r in free] or [r for r in first.unseen if r in free]
    return tuple(r for r in culprits if r not in in_call) or tuple(culprits), order


def _pace(views: Sequence[Snapshot]) -> tuple[float, float]:
    """Return the longest time between two collectives of a rank, and how many came per second."""
    gaps: list[float] = []
    for view in views:
        times = sorted(operation.since for operation in view.operations if operation.since)
        gaps += [view.pause] if view.pause else []
        gaps += [b - a for a, b in pairwise(times) if b > a]
    if not gaps:
        return 0.0, 0.0
    middle = sorted(gaps)[len(gaps) // 2]
    return max(gaps), 1 / middle


def _far(view: Snapshot) -> dict[tuple[str, str], int]:
    far: dict[tuple[str, str], int] = {
        (count.group, count.name): count.entered for count in view.counts
    }
    for operation in view.operations:
        kind = "" if operation.peer < 0 else operation.name
        for key in ((operation.group, kind), (operation.group, f"{kind} done" * operation.done)):
            far[key] = max(far.get(key, 0), operation.number)
    return far


def _place(stall: Stuck) -> tuple[str, str, int]:
    return stall.group, stall.name, stall.number


def with_ranks(snapshots: Sequence[Snapshot]) -> Iterator[Snapshot]:
    """Return the snapshots with the rank that another source knows for their process, if any."""
    owners: dict[int, list[Snapshot]] = defaultdict(list)
    in_job = [s for s in snapshots if s.rank >= 0 and s.source not in OF_COMMUNICATORS]
    for snapshot in in_job:
        owners[snapshot.pid].append(snapshot)
    owners.pop(0, None)  # no process is known
    ranks: dict[str, dict[int, int]] = {source: {} for source in OF_COMMUNICATORS}
    for snapshot in snapshots:
        if snapshot.source in ranks and (rank := _owner(snapshot, owners[snapshot.pid])) >= 0:
            ranks[snapshot.source][snapshot.rank] = rank
    for snapshot in snapshots:
        if snapshot.source in ranks:
            numbers = ranks[snapshot.source]
            if all(old == new for old, new in numbers.items()):
                yield from (snapshot,) * (snapshot.rank >= 0)
            elif snapshot.rank in numbers:
                groups = tuple(
                    Membership(
                        group=group.group,
                        ranks=tuple(sorted(numbers[rank] for rank in group.ranks)),
                    )
                    for group in snapshot.groups
                    if {*group.ranks} <= {*numbers}
                )
                yield msgspec.structs.replace(snapshot, rank=numbers[snapshot.rank], groups=groups)
        else:
            rank = snapshot.rank if snapshot.rank >= 0 else _owner(snapshot, owners[snapshot.pid])
            yield from (msgspec.structs.replace(snapshot, rank=rank),) * (rank >= 0)


def _owner(snapshot: Snapshot, owners: Sequence[Snapshot]) -> int:
    """Return the rank of a process; -1 if no source knows it, or several do."""
    ranks = {owner.rank for owner in owners if _is_same_host(snapshot.host, owner)}
    return ranks.pop() if len(ranks) == 1 else -1


def _is_same_host(name: str, owner: Snapshot) -> bool:
    """Compare hosts: NCCL names one by an address, others by a name with or without its domain."""
    if not name or not owner.host or name in owner.addresses:
        return True
    is_address = ":" in name or name.replace(".", "").isdigit()
    if is_address:
        return not owner.addresses
    return name.partition(".")[0] == owner.host.partition(".")[0]
