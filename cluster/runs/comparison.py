"""Comparison of runs, as `cluster.compare` returns it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from cluster.analysis.statistics.compare import THRESHOLD, Comparison, Launch, Side
from cluster.analysis.statistics.compare import compare as compare_sides
from cluster.analysis.topology.nccl_toggles import TOGGLES, ToggleProof, toggle_proof
from cluster.core.errors import SpecError
from cluster.core.state.files import write_file
from cluster.reports.words.comparison import headline
from cluster.runs import frames
from cluster.runs.catalog import load
from cluster.runs.run import RAW, Run, nccl_log, topologies

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from cluster.reports.plots import Picture


Ref = Run | str | Path


class RunComparison(Comparison, frozen=True, kw_only=True):
    """Two groups of runs: what differs between them, and a verdict per data point.

    A verdict is on the second group: it is faster or slower than the first, equivalent, or the data
    are inconclusive.
    """

    def __repr__(self) -> str:
        return f"<RunComparison {headline(self)}>"

    def __str__(self) -> str:
        from cluster.reports.formats.terminal import table_text  # noqa: PLC0415 - it imports rich
        from cluster.reports.tables import comparison_tables  # noqa: PLC0415

        return "\n".join(table_text(table) for table in comparison_tables(self))

    def _repr_html_(self) -> str:
        from cluster.reports.html_page import tables_html  # noqa: PLC0415 - only for notebooks
        from cluster.reports.tables import comparison_tables  # noqa: PLC0415 - only for notebooks

        differences, cells = comparison_tables(self)
        return tables_html([cells, differences])

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the data points as columns, one row each.

        Returns:
            Columns: metric, one per parameter, unit, base, other, ratio, ratio_low, ratio_high,
            verdict, reason. Unknown values are None.
        """
        return frames.cell_columns(self.cells)

    def to_pandas(self) -> pd.DataFrame:
        """Return the columns of `to_dict` as a frame of pandas (SpecError: it is not installed)."""
        return frames.pandas_frame(self.to_dict())

    def to_polars(self) -> pl.DataFrame:
        """Return the columns of `to_dict` as a frame of polars (SpecError: it is not installed)."""
        return frames.polars_frame(self.to_dict())

    def plot(self, path: str | Path | None = None) -> Picture:
        """Draw the ratio of each data point with its interval; a notebook shows the picture.

        Args:
            path: File to write as well: .svg, .png or .pdf.

        Raises:
            SpecError: no data point can be compared, or matplotlib is not installed.
        """
        from cluster.reports import pictures, plots  # noqa: PLC0415 - they import matplotlib

        picture = plots.comparison(self, pictures.file_format(str(path)) if path else "svg")
        if path:
            write_file(path, picture.image)
        return picture


def compare(
    base: Ref | Sequence[Ref], other: Ref | Sequence[Ref], *, threshold: float = THRESHOLD
) -> RunComparison:
    """Compare two runs, or two groups: `cluster.compare("before", "after").cells`.

    Args:
        base: The baseline: a run, or what `load` takes, or a list of them.
        other: The group that the verdicts are about.
        threshold: Smallest difference that matters, as a fraction of the value.

    Returns:
        What differs, and a verdict per data point.

    Raises:
        SpecError: there is no such run, one is on both sides, or the threshold is not between 0
            and 1.
    """
    first, second = _runs(base), _runs(other)
    if overlap := {run.folder for run in first} & {run.folder for run in second}:
        raise SpecError(
            f"A run cannot be compared with itself: {min(overlap).name} is on both sides.",
            remedy="Name another run: cluster.runs() lists them.",
        )
    return compare_groups(side(first), side(second), threshold)


def compare_groups(base: Side, other: Side, threshold: float) -> RunComparison:
    """Compare two groups of launches; `threshold` is a fraction from 0 to 1 (SpecError)."""
    return RunComparison(**structs.asdict(compare_sides(base, other, threshold)))


def _runs(selection: Ref | Sequence[Ref]) -> list[Run]:
    group = [selection] if isinstance(selection, Run | str | Path) else list(selection)
    return [member if isinstance(member, Run) else load(member) for member in group]


def side(runs: Sequence[Run]) -> Side:
    """Return runs as one side of a comparison, which has the name of the first."""
    several = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return Side(name=runs[0].name + several, launches=tuple(launch_of(run) for run in runs))


def launch_of(run: Run) -> Launch:
    """Return a run as a comparison sees it, with what its logs of NCCL prove."""
    return Launch(record=run.record, summaries=run.summary(), toggle=proof_of(run))


def proof_of(run: Run) -> ToggleProof | None:
    """Return the proof that NCCL obeyed a run's toggles, or why there is none; None without."""
    if not any(name in run.record.variables for name in TOGGLES):
        return None
    raw = run.folder / RAW
    return toggle_proof(run.record.variables, nccl_log(raw), topologies(raw))
