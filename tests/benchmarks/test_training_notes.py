"""What `training` says beside its values: threads without cores, and data that prove little."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.benchmarks.training import rounds
from cluster.benchmarks.training.definitions import TrainingParams
from tests.snapshots import Snapshot

FEW = 1024  # samples
MANY = 10**12


def add_notes(monkeypatch: pytest.MonkeyPatch, *, disk: bool, **params: Any) -> str:
    notes: list[str] = []
    monkeypatch.setattr(rounds, "place_on_host", lambda _: (0, 2))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    memory = object()
    setting: Any = SimpleNamespace(
        rank=SimpleNamespace(note=notes.append, comm=None),
        params=TrainingParams(**params),
        trainer=SimpleNamespace(parameters=7, gradient_bytes=28),
        memory=memory,
        shard_source=object() if disk else memory,
    )
    torch: Any = SimpleNamespace(__version__="2.13.0+cpu", get_num_threads=lambda: 1)
    rounds._add_notes(setting, torch)
    return "\n".join(notes)


def test_more_workers_than_cores_are_told(
    monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    snapshot(add_notes(monkeypatch, disk=False, workers=3))
    snapshot(add_notes(monkeypatch, disk=False, workers=0))


def test_data_that_fit_in_memory_prove_nothing_about_a_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = "fit in memory: a program that keeps them would read them once"

    assert words in add_notes(monkeypatch, disk=True, source="disk", samples=FEW, workers=0)
    assert words not in add_notes(monkeypatch, disk=True, source="disk", samples=MANY, workers=0)
    assert words not in add_notes(monkeypatch, disk=False, samples=FEW, workers=0)


def test_each_round_goes_on_with_the_shards_where_the_one_before_ended() -> None:
    names = [str(number) for number in range(6)]
    setting: Any = SimpleNamespace(names=names, params=TrainingParams(steps=8, warm_up=4))
    begins = [rounds._turn(setting, number)[0] for number in range(4)]

    assert begins == ["0", "3", "0", "3"]  # 12 steps of 64 samples are three shards of 256
    assert sorted(rounds._turn(setting, 1)) == names
