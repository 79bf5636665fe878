"""DLIO's summary.json: which of its figures hold. The file has the keys that its writer writes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS

SUMMARY = json.loads((LOGS / "dlio.four_epochs.txt").read_text())


def parsed(**metric: Any) -> Any:
    document = {**SUMMARY, "metric": {**SUMMARY["metric"], **metric}}
    [found] = read([json.dumps(document, indent=4).encode()]).results
    return found


def test_the_figures_of_each_epoch_are_read() -> None:
    values = {m.metric: m.values for m in parsed().measurements}

    assert values["accelerator_utilisation"] == tuple(SUMMARY["metric"]["train_au_percentage"])
    assert len(values["samples_rate"]) == 4
    assert values["read_rate"][0] == pytest.approx(1475.4431875 * 114660)  # it prints MiB as MB


def test_figures_that_do_not_follow_from_the_epochs_are_named() -> None:
    notes = " | ".join(parsed().notes)

    assert "train_throughput mean is printed as 1490, and its epochs give 1475.44" in notes
    assert "train_au mean is printed" not in notes
    assert "train_au of epoch 3 is 0 % at 1471 samples/s" in notes
    assert "fit in the memory of a host" in notes


def test_an_impossible_utilisation_is_named() -> None:
    notes = " | ".join(parsed(train_au_percentage=[101.0, 90.0, 90.0, 90.0]).notes)

    assert "train_au of epoch 1 is 101 %, which is impossible" in notes
