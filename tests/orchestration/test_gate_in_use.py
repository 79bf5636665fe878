"""A gate beside jobs: one line says what runs where, and a step is proposed that helps."""

from threading import Thread
from typing import Any

import pytest

import cluster
from cluster.orchestration.launch import gate
from cluster.orchestration.launch.gate import prove
from tests.conftest import until

HOSTS = 64


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("used", "options", "step"),
    [
        (HOSTS, {}, ("wait", "all")),
        (HOSTS, {"busy": True}, ("wait", "all")),
        (HOSTS - 1, {"busy": True}, ("wait", "all")),  # one host is no pair
        (3, {}, ("check", "all", "--gate", "--within", "60s", "--busy")),
    ],
)
def test_hosts_in_use_are_one_line_and_a_step_that_helps(
    used: int,
    options: dict[str, Any],
    step: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = cluster.launch("all", provider="sim", options={"fabric": "leafspine:8x8"})
    job = "python train.py of alice, since 10:00"
    jobs = {machine.name: job for machine in c.machines[:used]}
    monkeypatch.setattr(gate, "busy_hosts", lambda _: jobs)

    answer = prove(c, **options)

    assert (answer.code, answer.skipped) == ("in_use", tuple(range(used)))
    assert answer.reason.count(job) == 1
    assert answer.reason in f"{answer.answer}."
    assert len(answer.answer) < 300
    assert answer.step is not None
    assert (answer.step.command, *answer.step.arguments) == step


@pytest.mark.usefixtures("home")
def test_a_check_that_runs_is_waited_for() -> None:
    c = cluster.launch("checked", hosts=2)
    check = Thread(target=cluster.attach("checked").bench, args=("pairs",), kwargs={"alone": 1})
    check.start()
    until(lambda: c.disk.refresh().jobs, "a job of the check")

    answer = prove(c, within=120)

    check.join()
    assert answer.code == "no_network"
    assert len(c.disk.refresh().jobs) == 2
