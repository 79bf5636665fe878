"""DLIO's summary.json: which of its figures hold.

`dlio.unet3d` and `dlio.one_epoch` are real, without what they say of processors and memory: results
of MLPerf Storage v1.0 (Closed/DDN, unet3d-h100, run1) and v0.5 (closed/ANL, polaris-lustre, bert,
run0), in github.com/mlcommons/storage_results_v1.0 and _v0.5. `dlio.four_epochs` has the keys of
the writer and figures with faults.
"""

import json
from typing import Any

import pytest

from cluster.core.model.results.records import Note
from cluster.logs.reader import read
from tests.logs.samples import LOGS

SUMMARY = json.loads((LOGS / "dlio.four_epochs.txt").read_text())


def parse(**metric: Any) -> Any:
    document = {**SUMMARY, "metric": {**SUMMARY["metric"], **metric}}
    [result] = read([json.dumps(document, indent=4).encode()]).results
    return result


def test_the_figures_of_each_epoch_are_read() -> None:
    values = {m.metric: m.values for m in parse().measurements}

    assert values["accelerator_utilisation"] == tuple(SUMMARY["metric"]["train_au_percentage"])
    assert len(values["samples_rate"]) == 4
    assert values["read_rate"][0] == pytest.approx(1475.4431875 * 114660)  # it prints MiB as MB


def test_figures_that_do_not_follow_from_the_epochs_are_named() -> None:
    assert [(note.kind, *note.values[:2]) for note in parse().notes] == [
        ("other_mean", "train_throughput mean", 1490.0),
        ("no_step_counted", 3, pytest.approx(1471, abs=0.5)),
        ("data_fit_memory",),
        ("emulated_accelerators",),
    ]


def test_an_impossible_utilisation_is_named() -> None:
    result = parse(train_au_percentage=[101.0, 90.0, 90.0, 90.0])

    assert Note("impossible_au", (1, 101.0)) in result.notes


@pytest.mark.parametrize(
    ("name", "epochs", "record"), [("unet3d", 5, 146_600_628), ("one_epoch", 1, 2_500)]
)
def test_all_figures_of_real_summaries_hold(name: str, epochs: int, record: int) -> None:
    """A sample of U-Net3D has 146,600,628 bytes: so what is printed in MB are MiB."""
    [result] = read([(LOGS / f"dlio.{name}.txt").read_bytes()]).results
    values = {m.metric: m.values for m in result.measurements}

    assert len(result.notes) == 1  # what AU is, in general
    assert result.failures == ()
    assert len(values["accelerator_utilisation"]) == len(values["samples_rate"]) == epochs
    mean = sum(values["samples_rate"]) / epochs
    assert values["read_rate"][0] / mean == pytest.approx(record, rel=1e-6)
