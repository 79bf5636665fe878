"""Emulated clouds for tests: one for all of them, made anew for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.fakes.cloud import Emulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes import gcp as google
    from tests.fakes.aws import Cloud

STRANGE = (  # what a machine may say of clouds that are none of ours
    *("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CORE_PROJECT"),
)
C = TypeVar("C", bound=Emulated[Any])


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


def _for_test(cloud: C, monkeypatch: pytest.MonkeyPatch) -> Iterator[C]:
    """Yield a cloud as new, and see to it that nothing else of this machine is asked."""
    cloud.reset()
    for name in STRANGE:
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
    yield from _for_test(_gcp_hosts_server, monkeypatch)


@pytest.fixture
def gcp(_gcp_server: google.Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[google.Cloud]:
    """Google's cloud without hosts; what it does not know fails the test."""
    yield from _for_test(_gcp_server, monkeypatch)
