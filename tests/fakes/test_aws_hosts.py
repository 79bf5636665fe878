"""Behind an instance of the test cloud is a real host, which obeys its orders and its groups."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml

from tests.conftest import ROOT, processes, run, until
from tests.fakes.aws.images import UBUNTU
from tests.fakes.test_aws_fake import ONCE, image, refusal, states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.aws import Cloud

IMAGE = UBUNTU["24.04", "amd64"].id
BEGIN, END = "-----BEGIN SSH HOST KEY KEYS-----\n", "-----END SSH HOST KEY KEYS-----"


@pytest.fixture
def ec2(aws_hosts: Cloud) -> Iterator[Any]:
    client = boto3.client("ec2", config=ONCE)
    yield client
    client.close()


def words_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


class Machines:
    """Instances with a key pair, and a security group that lets the caller in."""

    def __init__(self, cloud: Cloud, ec2: Any, folder: Path) -> None:
        self.cloud, self.ec2, self.folder = cloud, ec2, folder
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
        ec2.import_key_pair(KeyName="k", PublicKeyMaterial=(folder / "key.pub").read_bytes())
        self.group = ec2.create_security_group(GroupName="s", Description="d")["GroupId"]
        self.ssh_from = [
            {
                "IpProtocol": "tcp",
                "FromPort": 22,
                "ToPort": 22,
                "IpRanges": [{"CidrIp": f"{cloud.caller}/32"}],
            }
        ]
        inside = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": self.group}]}]
        ec2.authorize_security_group_ingress(
            GroupId=self.group, IpPermissions=[*self.ssh_from, *inside]
        )

    def launch(self, count: int, config: dict[str, Any] | None = None) -> list[str]:
        made = self.ec2.run_instances(
            MinCount=count,
            MaxCount=count,
            ImageId=image(),
            InstanceType="c5.large",
            KeyName="k",
            SecurityGroupIds=[self.group],
            InstanceInitiatedShutdownBehavior="terminate",
            UserData="#cloud-config\n" + yaml.safe_dump(config or {}),
        )
        return [instance["InstanceId"] for instance in made["Instances"]]

    def shown(self, ids: list[str]) -> list[dict[str, Any]]:
        found = self.ec2.describe_instances(InstanceIds=ids)["Reservations"]
        return [instance for r in found for instance in r["Instances"]]

    def open(self, address: str) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.3)
            return probe.connect_ex((address, 22)) == 0

    def up(self, address: str) -> str:
        until(lambda: self.open(address), f"sshd answers at {address}")
        return address

    def ssh(self, address: str, command: str, key: str) -> subprocess.CompletedProcess[str]:
        known = self.folder / "known"
        known.write_text(f"{address} {key}")
        trust = ["-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known}"]
        words = ["ssh", "-F", "none", "-o", "BatchMode=yes", "-i", str(self.folder / "key")]
        return run(*words, *trust, f"ubuntu@{self.up(address)}", command, status=None)

    def key(self, instance: str) -> str:
        """Return the host key that the console tells."""
        text = until(lambda: self._console(instance), "the console tells the host's key")
        return str(text.partition(BEGIN)[2].partition(END)[0])

    def _console(self, instance: str) -> str:
        text = self.ec2.get_console_output(InstanceId=instance).get("Output", "")
        return text if END in text else ""


@pytest.fixture
def machines(aws_hosts: Cloud, ec2: Any, tmp_path: Path) -> Machines:
    return Machines(aws_hosts, ec2, tmp_path)


def test_a_host_obeys_its_user_data_and_has_the_key_of_its_console(machines: Machines) -> None:
    ids = machines.launch(
        2,
        {
            "hostname": "one",
            "write_files": [{"path": "/etc/x/y", "content": "hi", "permissions": "0600"}],
            "runcmd": [["sh", "-c", "echo done > /run/late"]],
        },
    )
    one, two = machines.shown(ids)
    machines.up(two["PublicIpAddress"])
    other = two["PrivateIpAddress"]

    said = machines.ssh(
        one["PublicIpAddress"],
        f"hostname; id -un; sudo -n cat /etc/x/y; until cat /run/late; do sleep 0.1; done;"
        f"bash -c 'echo > /dev/tcp/{other}/22' && echo $SSH_CLIENT",
        machines.key(ids[0]),
    )

    words = said.stdout.replace("hi", "hi\n").split()
    assert words[:5] == ["one", "ubuntu", "hi", "done", machines.cloud.caller], said
    wrong = machines.ssh(one["PublicIpAddress"], "true", machines.key(ids[1]))
    assert "HOST IDENTIFICATION HAS CHANGED" in wrong.stderr


def test_its_own_host_key_can_be_ordered_and_changed(machines: Machines, tmp_path: Path) -> None:
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "host"))
    private, public = (tmp_path / "host").read_text(), (tmp_path / "host.pub").read_text()
    keys = {"ed25519_private": private, "ed25519_public": public}
    ids = machines.launch(1, {"ssh_deletekeys": True, "ssh_keys": keys})
    address = machines.shown(ids)[0]["PublicIpAddress"]

    change = (
        "cd /etc/ssh && sudo rm ssh_host_ed25519_key ssh_host_ed25519_key.pub &&"
        "sudo ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key &&"
        "sudo systemctl reload ssh && cat ssh_host_ed25519_key.pub"
    )
    said = machines.ssh(address, change, public)

    assert said.returncode == 0, said
    until(lambda: machines.ssh(address, "true", said.stdout).returncode == 0, "its new key holds")
    assert machines.ssh(address, "true", public).returncode != 0


def test_a_group_lets_in_only_whom_it_names(machines: Machines, ec2: Any) -> None:
    ids = machines.launch(1)
    address = machines.up(machines.shown(ids)[0]["PublicIpAddress"])

    ec2.revoke_security_group_ingress(GroupId=machines.group, IpPermissions=machines.ssh_from)

    until(lambda: not machines.open(address), "nobody is let in any more")
    assert machines.cloud.running(ids[0])


def test_an_armed_shutdown_ends_the_instance_with_nobody_there(machines: Machines) -> None:
    machines.cloud.set(minute=0.01)

    ids = machines.launch(2, {"bootcmd": [["shutdown", "-P", "+60"]]})

    until(lambda: states(machines.ec2, ids) == {"terminated"}, "they end by themselves")
    assert not any(machines.cloud.running(i) for i in ids)
    reason = machines.shown(ids)[0]["StateReason"]["Code"]
    assert reason == "Client.InstanceInitiatedShutdown"
    assert not any(t.kind in ("instance", "volume") for t in machines.cloud.things(theirs=False))


def test_stopped_and_started_a_host_keeps_its_files(machines: Machines, ec2: Any) -> None:
    ids = machines.launch(1)
    before = machines.shown(ids)[0]["PublicIpAddress"]
    key = machines.key(ids[0])
    machines.ssh(before, "echo kept > file; sync", key)

    ec2.stop_instances(InstanceIds=ids)
    until(lambda: states(ec2, ids) == {"stopped"}, "stopped")
    assert not machines.cloud.running(ids[0])
    ec2.start_instances(InstanceIds=ids)
    after = machines.shown(ids)[0]["PublicIpAddress"]

    assert after != before
    assert machines.ssh(after, "cat file", key).stdout == "kept\n"


def test_terminated_means_unreachable_and_many_are_quick(machines: Machines, ec2: Any) -> None:
    ids = machines.launch(16)
    addresses = [instance["PublicIpAddress"] for instance in machines.shown(ids)]
    for address in addresses:
        machines.up(address)

    ec2.terminate_instances(InstanceIds=ids)

    assert not any(machines.cloud.running(i) for i in ids)
    until(lambda: not machines.open(addresses[-1]), "the kernel closes the sockets of the last one")


def test_user_data_that_is_not_known_is_a_gap(machines: Machines) -> None:
    assert refusal(machines.launch, count=1, config={"apt": {}})[0] == "EmulatorGap"

    machines.cloud.gaps.clear()


def test_private_addresses_are_reached_over_a_vpn(machines: Machines) -> None:
    ids = machines.launch(1)
    key = machines.key(ids[0])

    machines.cloud.peer()

    private = machines.shown(ids)[0]["PrivateIpAddress"]
    said = machines.ssh(private, "hostname", key)
    assert said.stdout == f"ip-{private.replace('.', '-')}\n"


def test_by_hand_it_tells_what_to_export_and_leaves_nothing_even_when_killed(
    possible_hosts: None,
) -> None:
    words = [sys.executable, "-m", "tests.fakes.aws", "--hosts"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout
        said = dict(server.stdout.readline()[7:].strip().split("=", 1) for _ in range(8))
        client = boto3.client(
            "ec2",
            endpoint_url=said["AWS_ENDPOINT_URL"],
            region_name=said["AWS_DEFAULT_REGION"],
            aws_access_key_id=said["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=said["AWS_SECRET_ACCESS_KEY"],
        )
        made = client.run_instances(MinCount=2, MaxCount=2, ImageId=IMAGE, InstanceType="c5.large")[
            "Instances"
        ]
        ids = [instance["InstanceId"] for instance in made]
        until(lambda: all(processes(i) for i in ids), "the hosts are there")
        folders = [word for word in words_of(processes(ids[0])[0]) if "test-cloud-" in word]

        server.kill()

    until(lambda: not any(processes(i) for i in ids), "the hosts are gone")
    until(lambda: not Path(folders[0]).parent.exists(), "their files are gone")
