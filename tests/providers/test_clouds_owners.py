"""Who launched a cluster takes it down, in any later session; nobody else is told "0 left"."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.oauth2.credentials import Credentials

from cluster.core.errors import Denied
from cluster.core.model.spec import ClusterSpec
from cluster.core.state import journal
from cluster.orchestration.launch.orphans import search
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.aws import api as api_of_amazon
from cluster.providers.gcp import api
from tests.clouds import AWS, GCP, NAME
from tests.fakes import gcp as google
from tests.fakes.aws import Cloud
from tests.fakes.aws.permissions import ACCOUNT, OTHER_ACCOUNT
from tests.fakes.values import Thing
from tests.orphans import find_orphans
from tests.snapshots import Snapshot

pytestmark = pytest.mark.usefixtures("soon")
POLICY = Path(__file__).parents[2] / "docs" / "aws-policy.json"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def own_things(cloud: Cloud) -> list[Thing]:
    """List what a launch made."""
    return sorted(thing for thing in cloud.things() if f"cluster={NAME}" in thing.tags)


class Role:
    """A profile that takes on a role, in one session after another."""

    def __init__(self, path: Path, arn: str, key: str) -> None:
        self._path, self._arn, self._key = path, arn, key

    def session(self, name: str) -> None:
        """Let the next process have a session of this name."""
        self._path.write_text(
            f"[profile mpi]\nrole_arn = {self._arn}\nrole_session_name = {name}\n"
            "source_profile = me\n"
            f"[profile me]\naws_access_key_id = {self._key}\naws_secret_access_key = not-a-secret\n"
        )


@pytest.fixture
def role(aws: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Role:
    """Who may do what `docs/aws-policy.json` says."""
    policy = json.loads(POLICY.read_text())
    arn = aws.permissions.add_role("mpi", policy)
    path = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    monkeypatch.setenv("AWS_PROFILE", "mpi")
    for name in KEYS:
        monkeypatch.delenv(name)
    return Role(path, arn, aws.environ["AWS_ACCESS_KEY_ID"])


@pytest.mark.parametrize("has_journal", [True, False], ids=["journal", "no journal"])
def test_a_role_takes_down_what_it_launched_in_another_session(
    aws: Cloud, role: Role, *, has_journal: bool
) -> None:
    before = aws.things()
    role.session("monday")
    AWS.create(AWS.planned())
    role.session("tuesday")
    if not has_journal:
        journal.for_cluster(NAME).forget()

    assert len(AWS.provider().find(NAME)) >= AWS.spec.hosts
    assert [cluster.name for cluster in AWS.provider().live()] == [NAME]
    AWS.provider().destroy(NAME)
    assert aws.things() == before


def test_the_policy_permits_nothing_to_be_made_without_the_callers_own_tag(
    aws: Cloud, role: Role
) -> None:
    """What nobody could find or delete again; a stranger's name in the tag is refused, too."""
    before = aws.things()
    role.session("monday")
    region = api_of_amazon.Region("us-east-1")
    [vpc] = [row["VpcId"] for row in region.call("describe_vpcs")["Vpcs"]]
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "allocate_address": ("elastic-ip", {"Domain": "vpc"}),
        "create_internet_gateway": ("internet-gateway", {}),
        "create_placement_group": ("placement-group", {"GroupName": "g", "Strategy": "cluster"}),
        "create_security_group": (
            "security-group",
            {"GroupName": "g", "Description": "d", "VpcId": vpc},
        ),
        "create_vpc": ("vpc", {"CidrBlock": "10.0.0.0/16"}),
        "run_instances": (
            "instance",
            {"ImageId": "ami-1", "InstanceType": "c5.large", "MinCount": 1, "MaxCount": 1},
        ),
    }
    for call, (kind, params) in kinds.items():
        for tags in ([], [{"Key": "cluster-user", "Value": "AIDASOMEBODYELSE"}]):
            specs = [{"ResourceType": kind, "Tags": tags}] if tags else []
            request = {**params, **({"TagSpecifications": specs} if specs else {})}
            with pytest.raises(Failure) as error:
                region.call(call, **request)
            assert error.value.kind == "denied", call
    assert aws.things() == before


def test_a_person_of_identity_center_is_told_from_others_with_the_same_role(
    aws: Cloud, role: Role
) -> None:
    shared = Role(
        role._path, aws.permissions.add_role("AWSReservedSSO_Lab_0123456789abcdef", None), role._key
    )
    shared.session("alice@example.com")
    AWS.create(AWS.planned())
    shared.session("bob@example.com")

    assert AWS.provider().live() == ()
    with pytest.raises(Denied, match=r"alice@example\.com.*bob@example\.com"):
        AWS.provider().destroy(NAME)
    shared.session("alice@example.com")
    AWS.provider().destroy(NAME)
    assert own_things(aws) == []


@pytest.mark.parametrize("account", [ACCOUNT, OTHER_ACCOUNT])
def test_somebody_else_is_refused_with_both_names(
    snapshot: Snapshot, aws: Cloud, monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    """Before anything is looked for: whatever they see says nothing of what is left."""
    AWS.create(AWS.planned())
    things = own_things(aws)
    bob = aws.user("bob", None, account)
    monkeypatch.setenv(KEYS[0], bob[KEYS[0]])

    for act in (AWS.provider().find, AWS.provider().destroy):
        with snapshot.raises(Denied) as error:
            act(NAME)
        words = error.value.what
        snapshot(words)
    with pytest.raises(Denied):
        AWS.provider().create(AWS.spec, journal.for_cluster(NAME))
    assert own_things(aws) == things
    assert journal.names() == (NAME,)

    monkeypatch.setenv(KEYS[0], aws.environ[KEYS[0]])
    AWS.provider().destroy(NAME)
    assert own_things(aws) == []


def test_gc_goes_on_past_a_cluster_of_somebody_else(
    aws: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reports that cluster, and finds the others."""
    for name in ("before", "behind"):
        entry = journal.Intended(spec=ClusterSpec(name=name, hosts=1), at=time.time())
        journal.for_cluster(name).append(entry)
        if name == "before":
            AWS.create(AWS.planned())
    monkeypatch.setenv(KEYS[0], aws.user("bob", None)[KEYS[0]])

    result = search()
    assert {"before", "behind"} <= {orphan.name for orphan in result.orphans}
    [error] = result.errors
    assert isinstance(error, Denied)
    assert NAME in error.what
    with pytest.raises(Denied):
        find_orphans()


def test_tags_that_were_taken_off_hide_no_machine(aws: Cloud) -> None:
    """The journal has their ids."""
    AWS.create(AWS.planned())
    region = aws.region("us-east-1")
    for life in region.alive():
        if "cluster-launch" in region.backend.tags.get(life.instance.id, {}):
            region.backend.tags.pop(life.instance.id)
    assert len([thing for thing in AWS.provider().find(NAME) if "instance" in thing.kind]) == 2

    AWS.provider().destroy(NAME)
    assert [thing for thing in aws.things(foreign=False) if thing.kind == "instance"] == []


def test_labels_that_were_taken_off_hide_no_machine(gcp: google.Cloud) -> None:
    """The journal has their names, and their descriptions say whose they are, or nothing."""
    gcp.set(**GCP.settings)
    GCP.create(GCP.planned())
    lives = list(gcp.lives.values())
    for life, described in zip(lives, (True, False), strict=True):
        life.instance["labels"] = {}
        if not described:
            life.instance["description"] = "somebody wrote something else"
    assert len([thing for thing in GCP.provider().find(NAME) if "instance" in thing.kind]) == 2

    GCP.provider().destroy(NAME)
    assert not gcp.lives


@pytest.mark.parametrize("has_journal", [True, False], ids=["journal", "no journal"])
def test_a_variable_of_the_shell_makes_nobody_somebody_else(
    gcp: google.Cloud, monkeypatch: pytest.MonkeyPatch, *, has_journal: bool
) -> None:
    gcp.set(**GCP.settings)
    monkeypatch.delenv("CLOUDSDK_CORE_ACCOUNT")
    monkeypatch.setenv("LOGNAME", "alice")
    GCP.create(GCP.planned())
    monkeypatch.setenv("LOGNAME", "root")
    if not has_journal:
        journal.for_cluster(NAME).forget()

    assert len(GCP.provider().find(NAME)) >= GCP.spec.hosts
    GCP.provider().destroy(NAME)
    assert gcp.things(foreign=False) == frozenset()


def test_equal_names_on_two_machines_are_two_owners(
    gcp: google.Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    gcp.set(**GCP.settings)
    monkeypatch.delenv("CLOUDSDK_CORE_ACCOUNT")
    GCP.create(GCP.planned())
    things = gcp.things()
    monkeypatch.setattr("platform.node", lambda: "another-machine")

    assert GCP.provider().live() == ()
    with pytest.raises(Denied, match="another-machine"):
        GCP.provider().destroy(NAME)
    assert gcp.things() == things


class Identity(BaseHTTPRequestHandler):
    """Google's answers about tokens."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer({"access_token": "alices", "expires_in": 3600, "token_type": "Bearer"})

    def do_GET(self) -> None:
        is_alice = "access_token=alices" in self.path
        self._answer({"email": "alice@example.com"} if is_alice else {}, 200 if is_alice else 400)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


@pytest.fixture
def identity() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Identity)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_users_credentials_are_asked_whose_they_are(
    identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `gcloud auth application-default login` wrote does not name anybody."""
    monkeypatch.setattr(api, "WHOSE", f"{identity}/tokeninfo")
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.delenv("CLOUDSDK_CORE_ACCOUNT", raising=False)
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", raising=False)
    credentials = Credentials(
        token=None,
        refresh_token="kept",  # noqa: S106 - not a secret
        token_uri=f"{identity}/token",
        client_id="gcloud",
        client_secret="public",  # noqa: S106 - not a secret
    )
    monkeypatch.setattr(api, "_default", lambda: (credentials, "project"))

    assert api.Project("project").owner == "alice@example.com"


class OfMachine:
    """A machine's own credentials, which have no name before their first token."""

    service_account_email = "default"
    valid = False

    def refresh(self, _: object) -> None:
        self.service_account_email = "mpi@project.iam.gserviceaccount.com"


def test_a_machines_own_account_is_named_before_its_first_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", raising=False)
    monkeypatch.setattr(api, "_default", lambda: (OfMachine(), "project"))

    assert api.Project("project").owner == "mpi@project.iam.gserviceaccount.com"
