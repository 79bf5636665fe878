"""Who is not logged in is told how to log in, and not to ask for permissions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.auth import exceptions as google_auth

from cluster.core import plugins
from cluster.core.errors import Denied
from cluster.providers import Provider
from cluster.providers.gcp import api
from tests.clouds import AWS, GCP
from tests.fakes.aws import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes import gcp as google
    from tests.fakes.aws import Cloud
    from tests.snapshots import Snapshot

CODES = [
    ("InvalidClientTokenId", "does not know this key", "aws configure"),
    ("SignatureDoesNotMatch", "does not match the access key ID", "aws configure"),
    ("ExpiredToken", "have expired", "aws sso login"),
    ("RequestExpired", "have expired, or this machine's clock is wrong", "aws sso login"),
    ("PendingVerification", "verifying the account", "support"),
    ("OptInRequired", "not signed up", "enable-region"),
    ("Blocked", "blocked the account", "support"),
    ("UnauthorizedOperation", "do not permit it", "docs/aws-policy.json"),
]
CONFIG = {
    "never logged in": (
        """[profile mpi]
sso_session = lab
sso_account_id = 123456789012
sso_role_name = Lab
[sso-session lab]
sso_start_url = https://example.awsapps.com/start
sso_region = us-east-1
""",
        "obody has logged in",
        "aws sso login",
    ),
    "an older form of it": (
        """[profile mpi]
sso_start_url = https://example.awsapps.com/start
sso_region = us-east-1
sso_account_id = 123456789012
sso_role_name = Lab
""",
        "logged in",
        "aws sso login",
    ),
    "no such profile": ("[profile other]\n", "not in the configuration", "list-profiles"),
    "half a key": ("[profile mpi]\naws_access_key_id = AKIA\n", "one half of a key", "Set both"),
    "no source": (
        "[profile mpi]\nrole_arn = arn:aws:iam::123456789012:role/mpi\nsource_profile = gone\n",
        "not complete",
        "aws configure list",
    ),
    "a program without an answer": (
        "[profile mpi]\ncredential_process = /bin/false\n",
        "gave none",
        "get-caller-identity",
    ),
}


def refused(cloud: str) -> Denied:
    """Plan, and give what is said."""
    world = AWS if cloud == "aws" else GCP
    with pytest.raises(Denied) as caught:
        plugins.load(Provider, cloud).plan(world.spec)
    return caught.value


@pytest.mark.parametrize(("code", "means", "remedy"), CODES, ids=[row[0] for row in CODES])
def test_each_refusal_of_amazon_has_its_own_remedy(
    aws: Cloud, code: str, means: str, remedy: str
) -> None:
    aws.fail(Fault(action="*", code=code, status=403))
    error = refused("aws")

    assert means in error.means
    assert f"({code}" in error.means
    assert remedy in error.remedy


@pytest.mark.parametrize("state", CONFIG)
def test_each_state_of_a_profile_has_its_own_remedy(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str
) -> None:
    text, means, remedy = CONFIG[state]
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mpi")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = refused("aws")

    assert means in error.means
    assert remedy in error.remedy
    assert "policy" not in error.remedy
    assert not aws.calls()


def test_without_any_credentials_it_says_how_to_give_some(
    snapshot: Snapshot, aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = refused("aws")

    snapshot(error.means)
    assert "aws configure" in error.remedy
    assert not aws.calls()


@pytest.mark.parametrize(
    ("word", "means", "remedy"),
    [
        ("accessNotConfigured", "not enabled", "gcloud services enable compute.googleapis.com"),
        ("billingNotEnabled", "no account that pays", "console.cloud.google.com/billing"),
        ("forbidden", "do not permit it", "gcloud auth list"),
    ],
)
def test_each_refusal_of_google_has_its_own_remedy(
    gcp: google.Cloud, word: str, means: str, remedy: str
) -> None:
    gcp.fail(Fault(action="*", code=word, status=403))
    error = refused("gcp")

    assert means in error.means
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("error", "means"),
    [
        (google_auth.DefaultCredentialsError("none"), "no credentials"),
        (google_auth.RefreshError("invalid_grant"), "expired, or was revoked"),
    ],
)
def test_a_login_of_google_that_is_over_is_said(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, error: Exception, means: str
) -> None:
    def fail(**_: object) -> None:
        raise error

    for name in ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", raising=False)
    monkeypatch.setattr("google.auth.default", fail)
    api._default.cache_clear()
    told = refused("gcp")

    assert means in f"{told.what} {told.means}"
    snapshot(told.remedy)
