"""Emulated clouds for tests: one for all of them, made anew for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes import gcp as google
    from tests.fakes.aws import Cloud


@pytest.fixture(scope="session")
def _aws_server() -> Iterator[Cloud]:
    from tests.fakes.aws import Cloud  # noqa: PLC0415 - moto takes a second, and few tests need it

    with Cloud() as cloud:
        yield cloud


@pytest.fixture(scope="session")
def possible_hosts() -> None:
    """Skip, with the reason, where no hosts can be made."""
    from tests.fakes.hosts import missing  # noqa: PLC0415

    if why := missing():
        pytest.skip(why)


@pytest.fixture(scope="session")
def _aws_hosts_server(possible_hosts: None) -> Iterator[Cloud]:
    from tests.fakes.aws import Cloud  # noqa: PLC0415

    with Cloud(hosts=True) as cloud:
        yield cloud


@pytest.fixture
def aws_hosts(_aws_hosts_server: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Amazon's cloud with a real host behind each instance."""
    yield from _for_test(_aws_hosts_server, monkeypatch)


@pytest.fixture
def aws(_aws_server: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """Amazon's cloud without hosts; what it does not know fails the test."""
    yield from _for_test(_aws_server, monkeypatch)


def _for_test(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    cloud.reset()
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in cloud.environ.items():
        monkeypatch.setenv(name, value)
    yield cloud
    gaps = list(cloud.gaps)
    cloud.reset()
    assert not gaps, f"The test cloud does not know: {gaps}"


@pytest.fixture(scope="session")
def _gcp_server() -> Iterator[google.Cloud]:
    from tests.fakes.gcp import Cloud  # noqa: PLC0415

    with Cloud() as cloud:
        yield cloud


@pytest.fixture(scope="session")
def _gcp_hosts_server() -> Iterator[google.Cloud]:
    from tests.fakes.gcp import Cloud  # noqa: PLC0415
    from tests.fakes.hosts import missing  # noqa: PLC0415

    if why := missing():
        pytest.skip(why)
    with Cloud(hosts=True) as cloud:
        yield cloud


@pytest.fixture
def gcp_hosts(
    _gcp_hosts_server: google.Cloud, monkeypatch: pytest.MonkeyPatch
) -> Iterator[google.Cloud]:
    """Google's cloud with a real host behind each instance."""
    yield from _for_google(_gcp_hosts_server, monkeypatch)


@pytest.fixture
def gcp(_gcp_server: google.Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[google.Cloud]:
    """Google's cloud without hosts; what it does not know fails the test."""
    yield from _for_google(_gcp_server, monkeypatch)


def _for_google(cloud: google.Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[google.Cloud]:
    cloud.reset()
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CORE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in cloud.environ.items():
        monkeypatch.setenv(name, value)
    yield cloud
    gaps = list(cloud.gaps)
    cloud.reset()
    assert not gaps, f"The test cloud does not know: {gaps}"
