"""What the tests of both clouds share: each runs with each cloud."""

from typing import Any

import pytest

from tests.clouds import WAITS, WORLDS, World
from tests.fakes.cloud import Emulated


@pytest.fixture(params=WORLDS, ids=lambda world: world.name)
def world(request: pytest.FixtureRequest) -> World:
    result: World = request.param
    return result


@pytest.fixture
def cloud(world: World, request: pytest.FixtureRequest) -> Emulated[Any]:
    result: Emulated[Any] = request.getfixturevalue(world.name)
    result.set(**world.settings)
    return result


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clouds be consistent after a moment: the test clouds are at once."""
    monkeypatch.setenv("CLUSTER_LATE", "0.1")
    for path, seconds in WAITS.items():
        monkeypatch.setattr(path, seconds)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clouds be consistent after a second, within the patience of users."""
    monkeypatch.setenv("CLUSTER_LATE", "1")


@pytest.fixture
def after_a_second(soon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clouds be consistent after a second, and lose patience after three."""
    monkeypatch.setenv("CLUSTER_LATE", "1")
    monkeypatch.setattr("cluster.providers._cloud.api_errors.PATIENCE", 3.0)
