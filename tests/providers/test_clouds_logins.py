"""Who is not logged in is told how to log in, and not to ask for permissions."""

from pathlib import Path

import pytest
from google.auth import exceptions as google_auth

from cluster.core import plugins
from cluster.core.errors import Denied
from cluster.providers import Provider
from cluster.providers.gcp import api
from tests.clouds import AWS, GCP
from tests.fakes import gcp as google
from tests.fakes.aws import Cloud, Fault
from tests.snapshots import Snapshot

CODES = (
    *("InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken", "RequestExpired"),
    *("PendingVerification", "OptInRequired", "Blocked", "UnauthorizedOperation"),
)
CONFIG = {
    "never logged in": """[profile mpi]
sso_session = lab
sso_account_id = 123456789012
sso_role_name = Lab
[sso-session lab]
sso_start_url = https://example.awsapps.com/start
sso_region = us-east-1
""",
    "an older form of it": """[profile mpi]
sso_start_url = https://example.awsapps.com/start
sso_region = us-east-1
sso_account_id = 123456789012
sso_role_name = Lab
""",
    "no such profile": "[profile other]\n",
    "half a key": "[profile mpi]\naws_access_key_id = AKIA\n",
    "no source": (
        "[profile mpi]\nrole_arn = arn:aws:iam::123456789012:role/mpi\nsource_profile = gone\n"
    ),
    "a program without an answer": "[profile mpi]\ncredential_process = /bin/false\n",
}


def refused(cloud: str) -> Denied:
    """Plan, and give what is said."""
    world = AWS if cloud == "aws" else GCP
    with pytest.raises(Denied) as error:
        plugins.load(Provider, cloud).plan(world.spec)
    return error.value


@pytest.mark.parametrize("code", CODES)
def test_each_refusal_of_amazon_has_its_own_remedy(
    snapshot: Snapshot, aws: Cloud, code: str
) -> None:
    aws.fail(Fault(action="*", code=code, status=403))
    error = refused("aws")

    snapshot([error.means, error.remedy])


@pytest.mark.parametrize("state", CONFIG)
def test_each_state_of_a_profile_has_its_own_remedy(
    snapshot: Snapshot, aws: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str
) -> None:
    (tmp_path / "config").write_text(CONFIG[state])
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mpi")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = refused("aws")

    snapshot([error.means, error.remedy])
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


@pytest.mark.parametrize("word", ["accessNotConfigured", "billingNotEnabled", "forbidden"])
def test_each_refusal_of_google_has_its_own_remedy(
    snapshot: Snapshot, gcp: google.Cloud, word: str
) -> None:
    gcp.fail(Fault(action="*", code=word, status=403))
    error = refused("gcp")

    snapshot([error.means, error.remedy])


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
    refusal = refused("gcp")

    assert means in f"{refusal.what} {refusal.means}"
    snapshot(refusal.remedy)
