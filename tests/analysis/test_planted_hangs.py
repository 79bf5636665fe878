"""Which rank the others wait for: planted hangs of each class, and jobs that are only slow."""

from itertools import cycle, islice
from pathlib import Path

import pytest

from cluster.analysis.hang import RULES, diagnose
from cluster.core.model.hang import HangAnswer
from cluster.runs.dumps import read_dumps
from tests.logs.dumps.planted import KINDS, SLOW, Case, plant, plant_slow


def ask(*paths: Path) -> HangAnswer:
    snapshots, unread = read_dumps([str(path) for path in paths])
    assert not unread
    return diagnose(snapshots)


@pytest.mark.quick(False)  # seconds
def test_planted_hangs_are_named(tmp_path: Path) -> None:
    """Rank and class, in at least 95 of 100."""
    wrong = []
    for seed, kind in enumerate(islice(cycle(KINDS), 200)):
        folder = tmp_path / f"{seed}-{kind}"
        folder.mkdir()
        planted = plant(kind, folder, seed)
        answer = ask(folder)
        blamed = answer.cause.stragglers if answer.cause else ()
        case = Case(
            kind=answer.cause.kind if answer.cause else "",
            ranks=tuple(straggler.rank for straggler in blamed),
        )
        if answer.verdict != "hung" or case != planted:
            wrong.append((folder.name, answer.verdict, planted, case))

    assert len(wrong) <= 10, wrong


@pytest.mark.quick(False)  # seconds
def test_slow_jobs_are_not_hung(tmp_path: Path) -> None:
    verdicts = {}
    for seed, kind in enumerate(islice(cycle(SLOW), 100)):
        folder = tmp_path / f"{seed}-{kind}"
        folder.mkdir()
        plant_slow(kind, folder, seed)
        verdicts[folder.name] = ask(folder).verdict

    assert not [name for name, verdict in verdicts.items() if verdict == "hung"]
    assert {v for name, v in verdicts.items() if "goes_on" in name} == {"slow"}


def test_each_class_has_its_planted_case() -> None:
    assert {kind for _, kind, _ in RULES} <= {*KINDS}


def test_missing_sources_are_named_and_make_it_less_sure(tmp_path: Path) -> None:
    answers = []
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        plant("rank_absent", folder, seed)
        answers.append(ask(folder))

    certain = [hang for hang in answers if hang.cause and hang.cause.confidence == "certain"]
    assert [hang for hang in answers if "processes" in hang.missing]
    assert certain
    assert not [hang for hang in certain if "processes" in hang.missing]
