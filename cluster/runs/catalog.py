"""Runs, listed and loaded by name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from cluster.core.errors import ClusterError, SpecError
from cluster.runs import store
from cluster.runs.run import Run

COLUMNS = ("run", "benchmark", "hosts", "status", "condition", "started (UTC)")


def load(name: str | Path = "latest", *, runs: str | Path | None = None) -> Run:
    """Load a run with all its values: `cluster.load("latest").summary()`.

    Args:
        name: `latest`, a folder, an id, `CLUSTER/ID`, or the name of a cluster, for its newest
            run.
        runs: Folder of all runs; `CLUSTER_RUNS` or `runs` if not given.

    Raises:
        SpecError: there is no such run.
        ParseError: the run cannot be read.
    """
    return store.read(store.find(store.root(runs), str(name)))


class RunList(Sequence["Run"]):
    """Runs, the oldest first; a run is read when it is accessed."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)

    def __len__(self) -> int:
        return len(self.folders)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> RunList: ...

    def __getitem__(self, index: int | slice) -> Run | RunList:
        if isinstance(index, slice):
            return RunList(self.folders[index])
        return store.read(self.folders[index])

    def __repr__(self) -> str:
        lines = ["  ".join(filter(None, row)) for row in self._rows()]
        return "\n".join([f"<RunList of {len(self)}>", *lines])

    def _repr_html_(self) -> str:
        from cluster.reports.html_page import tables_html  # noqa: PLC0415 - only for notebooks
        from cluster.reports.table import Table  # noqa: PLC0415

        table = Table(
            title=f"{len(self)} runs",
            columns=COLUMNS,
            rows=tuple(self._rows()),
            left_aligned=COLUMNS,
        )
        return tables_html([table])

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for folder in self.folders:
            name = "/".join(folder.parts[-2:])
            try:
                record = store.record(folder)
            except ClusterError as error:
                yield (name, "", "", f"cannot be read: {error.what}", "", "")
                continue
            hosts = f"{record.spec.hosts} x {record.spec.provider}"
            start = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.at))
            yield (name, record.benchmark, hosts, record.status, record.condition, start)


def runs(where: str | Path | None = None) -> RunList:
    """List the runs, the oldest first.

    Args:
        where: Folder of all runs; `CLUSTER_RUNS` or `runs` if not given.

    Returns:
        A sequence: `cluster.runs()[-1]` reads the newest.

    Raises:
        SpecError: there is no such folder.
    """
    if where is not None and not Path(where).is_dir():
        raise SpecError(
            f"There is no folder {where}.",
            remedy="Runs are in CLUSTER_RUNS, else in 'runs' in the current folder.",
        )
    return RunList(store.folders(store.root(where)))
