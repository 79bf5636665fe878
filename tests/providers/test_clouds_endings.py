"""A machine that ends after it ran, at each later step, in every cloud: why is said at once."""

import threading
from collections.abc import Callable
from typing import Any, Literal
from unittest.mock import patch

import msgspec
import pytest

from cluster.core.errors import Capacity, ClusterError, ProvisionError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state import journal
from cluster.orchestration.launch.launch import launch_spec
from cluster.remote import parallel
from cluster.remote.network import host_keys
from tests.clouds import AWS, GCP, NAME, World
from tests.conftest import until
from tests.fakes.cloud import Emulated

pytestmark = pytest.mark.timeout(60)
LONG = 3600.0  # seconds that nobody waits for
Ending = Literal["taken", "deleted"]
HOWS: dict[tuple[str, Ending], str] = {
    ("aws", "taken"): "Server.SpotInstanceTermination",
    ("aws", "deleted"): "Client.UserInitiatedShutdown",
    ("gcp", "taken"): "preempted",
    ("gcp", "deleted"): "deleted",
}
WORDS: dict[tuple[str, Ending], str] = {
    ("aws", "taken"): "Server.SpotInstanceTermination",
    ("aws", "deleted"): "Client.UserInitiatedShutdown",
    ("gcp", "taken"): "compute.instances.preempted by system: Instance was preempted",
    ("gcp", "deleted"): "delete by someone@example.com",
}
ZONES = {"aws": ("us-east-1a", "us-east-1b"), "gcp": ("us-central1-a", "us-central1-b")}


class Scene(Value, frozen=True, kw_only=True):
    """A cloud in which the first host of the first zone ends in a way."""

    world: World
    cloud: Any
    ending: Ending

    def end(self, first: str = "") -> None:
        """End a machine; any, if it has no name. Later ones come up at once."""
        self.cloud.set(boot=0.0, **({"login": 0.0} if self.world is GCP else {}))
        first = first or min(thing.id for thing in self.cloud.things(foreign=False) if _runs(thing))
        self.cloud.end(first, HOWS[self.world.name, self.ending])

    def spec(self, zones: int) -> ClusterSpec:
        """Return the spec of a cluster in some zones."""
        names = ",".join(ZONES[self.world.name][:zones])
        return msgspec.structs.replace(self.world.spec, zone=None, options={"zones": names})

    @property
    def words(self) -> str:
        """What the cloud says about such an end."""
        return WORDS[self.world.name, self.ending]


def _runs(thing: Any) -> bool:
    return thing.kind in ("instance", "instances") and thing.state.lower() == "running"


@pytest.fixture(params=["taken", "deleted"])
def scene(request: pytest.FixtureRequest, world: World, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Each cloud with hosts, whose machine is taken away, or deleted by somebody."""
    monkeypatch.setenv("CLUSTER_LATE", "0.2")
    monkeypatch.setattr("cluster.orchestration.hosts.machines.BETWEEN", 0.2)
    cloud: Emulated[Any] = request.getfixturevalue(f"{world.name}_hosts")
    return Scene(world=world, cloud=cloud, ending=request.param)


def once(do: Callable[[], None]) -> Callable[..., None]:
    """Return a function that does something when it is called first."""
    first_call = threading.Event()

    def only_once(*_: object) -> None:
        if not first_call.is_set():
            first_call.set()
            do()

    return only_once


def on_step(step: str, do: Callable[[], None]) -> StateCallback:
    """Return what does something when a machine has a state, or is connected to for the first time.

    It does so in a thread of its own, as the cloud does.
    """
    begin = once(lambda: threading.Thread(target=do).start())

    def on_state(name: str, state: str) -> None:
        del name
        entries = journal.for_cluster(NAME).entries()
        is_created = any(isinstance(entry, journal.Created) for entry in entries)
        if state == step or (step == "connecting" and is_created):
            begin()

    return on_state


def refused(scene: Scene, launch: Callable[[], object]) -> ClusterError:
    """Return the error of a launch whose machine ended, which left nothing."""
    with pytest.raises(ProvisionError) as excinfo:
        launch()
    error = excinfo.value
    assert scene.words in str(error)
    assert "guest agent" not in str(error)
    assert "nreachable" not in str(error)
    assert not journal.for_cluster(NAME).entries()
    assert not [thing for thing in scene.cloud.things(foreign=False) if _runs(thing)]
    return error


def test_while_ssh_is_waited_for(scene: Scene) -> None:
    """The host never comes up; the launch would wait for minutes."""
    before = scene.cloud.things()
    scene.cloud.set(boot=LONG)
    end = once(scene.end)
    guest = scene.world is GCP  # its keys are waited for before the first connection
    if guest:
        ending = threading.Thread(
            target=lambda: (
                until(
                    lambda: scene.cloud.calls("instances.getGuestAttributes"), "keys are asked for"
                )
                and end()
            )
        )
        ending.start()
    on_state = ignore if guest else on_step("connecting", end)
    error = refused(scene, lambda: launch_spec(scene.spec(1), on_state))
    if guest:
        ending.join()

    assert isinstance(error, Capacity) == (scene.ending == "taken")
    assert _standing(scene.cloud.things()) == _standing(before)


def _standing(things: Any) -> set[Any]:
    return {thing for thing in things if thing.state != "terminated"}


@pytest.mark.parametrize("world", [GCP], ids=["gcp"])
def test_while_the_user_is_made(scene: Scene) -> None:
    """Its sshd answers, and does not know yet who may log in; at Amazon, both come at once."""
    scene.cloud.set(login=LONG)
    refused(scene, lambda: launch_spec(scene.spec(1), on_step("authentication", scene.end)))


@pytest.mark.parametrize("step", ["MAKE", "USE", "reconnect"])
@pytest.mark.parametrize("world", [AWS], ids=["aws"])
def test_while_host_keys_are_changed(scene: Scene, step: str) -> None:
    end = once(scene.end)
    original = host_keys._as_root

    def as_root(shell: Any, script: str) -> str:
        if step != "reconnect" and script == getattr(host_keys, step):
            end()
        return original(shell, script)

    def connect_all(*args: Any, **named: Any) -> None:
        if step == "reconnect":
            end()
        reconnect(*args, **named)

    reconnect = parallel.connect_all
    with (
        patch.object(host_keys, "_as_root", as_root),
        patch.object(host_keys, "connect_all", connect_all),
    ):
        refused(scene, lambda: launch_spec(scene.spec(1)))


def test_while_benchmarks_are_installed(scene: Scene) -> None:
    """The cluster stays, as after any error of an installation."""
    cluster = launch_spec(scene.spec(1))
    end = once(scene.end)
    with pytest.raises(ProvisionError) as error:
        cluster.install(on_state=end)

    assert scene.words in error.value.what
    cluster.down(reachable=False)


def test_while_a_job_runs(scene: Scene) -> None:
    """Its run says what is known of a host that was lost."""
    cluster = launch_spec(scene.spec(1))
    first = cluster.machines[0]
    assert cluster.bench_jobs._known_of({first.name}) == ""
    scene.end(first.id.rpartition("/")[2])
    assert scene.words in cluster.bench_jobs._known_of({first.name})
    cluster.down(reachable=False)


@pytest.mark.parametrize("when", ["running", "connecting"])
def test_machines_that_are_taken_away_are_made_in_the_next_zone(scene: Scene, when: str) -> None:
    """One that somebody deleted is not made again."""
    before = scene.cloud.things()
    scene.cloud.set(**({"login": LONG} if scene.world is GCP else {"boot": LONG}))
    on_state = on_step(when, scene.end)
    if scene.ending == "deleted":
        refused(scene, lambda: launch_spec(scene.spec(2), on_state))
    else:
        cluster = launch_spec(scene.spec(2), on_state)
        running = [thing for thing in scene.cloud.things(foreign=False) if _runs(thing)]
        assert len(running) == scene.world.spec.hosts
        assert {zone_of(scene, thing) for thing in running} == {ZONES[scene.world.name][1]}
        cluster.down()
    assert _standing(scene.cloud.things()) == _standing(before)


def zone_of(scene: Scene, thing: Any) -> str:
    """Return the zone of an instance."""
    if scene.world is GCP:
        return str(thing.region)
    [life] = [life for life in scene.cloud._lives() if life.instance.id == thing.id]
    return str(life.instance.availability_zone)
