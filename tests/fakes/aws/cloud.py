"""The whole cloud: its state, its server, and what a test may do with it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from moto.ec2.models import ec2_backends

from tests.fakes.aws import contents, images, instance_hosts, speed, strangers
from tests.fakes.aws.permissions import ACCOUNT, ADMIN, OTHER_ACCOUNT, Permissions
from tests.fakes.aws.region import Region
from tests.fakes.aws.server import listener
from tests.fakes.aws.values import Settings, Thing
from tests.fakes.cloud import Emulated, Listening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moto.core.base_backend import BackendDict

    from tests.fakes.aws.region import Life
    from tests.fakes.network import Rules

HOME = "us-east-1"


class Cloud(Emulated[Settings]):
    """Amazon's cloud, as far as it is known here; see `tests.fakes.aws`."""

    def _listener(self, port: int) -> Listening:
        return listener(self, port)

    @property
    def environ(self) -> dict[str, str]:
        return self._environ(ADMIN)

    def _environ(self, key: str) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_DEFAULT_REGION": HOME,
            "AWS_CONFIG_FILE": "/nonexistent/config",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CLUSTER_CHECKIP": f"{self.url}/checkip",
        }

    def reset(self, settings: Settings | None = None) -> None:
        self._reset(settings or Settings())

    def _begin_anew(self) -> None:
        self._regions: dict[tuple[str, str], Region] = {}
        self.permissions = Permissions()
        for account in (ACCOUNT, OTHER_ACCOUNT):
            _backends(account).reset()
        strangers.put(self)

    def user(
        self, name: str, policy: dict[str, Any] | None, account: str = ACCOUNT
    ) -> dict[str, str]:
        """Return the environment of a user who may do what an IAM policy document says, or all."""
        return self._environ(self.permissions.add(name, policy, account))

    def things(self, *, foreign: bool = True) -> frozenset[Thing]:
        """List what exists, in every region that was used."""
        with self.lock:
            self.tick()
            all_things = {
                thing for region in self._regions.values() for thing in contents.things(region)
            }
            return frozenset(all_things if foreign else all_things - self.strangers())

    def strangers(self) -> frozenset[Thing]:
        """List the stranger's things, as they are now."""
        with self.lock:
            all_things = {
                thing for region in self._regions.values() for thing in contents.things(region)
            }
            return frozenset(thing for thing in all_things if strangers.owns(thing))

    def region(self, name: str, account: str = ACCOUNT) -> Region:
        """Return what there is of an account's region beside what moto knows."""
        key = account, name
        if key not in self._regions:
            self._regions[key] = Region(self, name, _backends(account)[name])
            regions = self.settings.default_vpc
            if regions is not None and name not in regions:
                self._regions[key].remove_default_vpc()
            else:
                self._regions[key].open_default_vpc()
            images.put(self._regions[key].backend)
        return self._regions[key]

    def tick(self) -> None:
        now = time.monotonic()
        for region in self._regions.values():
            region.tick(now)

    def list_all(self) -> None:
        """List now what is not listed yet."""
        for life in self._lives():
            life.visible = life.complete = 0.0

    def proceed(self, number: int | None = None) -> None:
        """Let instances reach now the state that they are on their way to."""
        for life in self._lives():
            if life.next and number in (None, life.instance.ami_launch_index):
                life.due = 0.0

    def _lives(self) -> list[Life]:
        with self.lock:
            return [life for region in self._regions.values() for life in region.lives.values()]

    def lose_tags(self, *kinds: str) -> None:
        with self.lock:
            for region in self._regions.values():
                for kind, number in contents.numbers(region):
                    tags = region.backend.tags.get(number, {})
                    if "cluster" in tags and (kind in kinds or not kinds):
                        tags.clear()

    def forget_ended(self) -> None:
        """Know no more of terminated instances, as an hour after their end."""
        with self.lock:
            for region in self._regions.values():
                region.forget_ended()

    def end(self, instance_id: str, code: str = "Server.SpotInstanceTermination") -> None:
        """End an instance as if Amazon had reclaimed it, or for another reason."""
        with self.lock:
            for region in self._regions.values():
                if instance_id in region.lives:
                    region.end(instance_id, code)

    def rules(self, devices: Mapping[str, str]) -> Rules:
        lives = [life for region in self._regions.values() for life in region.lives.values()]
        instances = {life.instance.id: life.instance for life in lives}
        return instance_hosts.rules(instances, devices, self._connected)

    def _connected(self, instance: Any) -> bool:
        backend = instance.ec2_backend
        region = self.region(backend.region_name, backend.account_id)
        return region.connected(instance.nics[0].subnet)


speed.use()
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"  # 1301 old ones, of which none is used


def _backends(account: str) -> Any:
    backends: BackendDict[Any] = ec2_backends
    return backends[account]
