"""What a host of a lab is, and how its links are: asked of the hosts themselves."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from cluster.orchestration.cluster import Cluster
from cluster.providers.lab import LabProvider
from tests.conftest import ROOT, answer, command, run, until
from tests.lab.conftest import must, shell_of

MASKED = ("/home", "/root", "/tmp", "/opt", "/srv", "/var/tmp", str(ROOT))  # noqa: S108
LAB = ("up", "mine", "--provider", "lab")


def outputs(c: Cluster, script: str) -> list[str]:
    """Return what a script prints on each host."""
    return [result.stdout.strip() for result in c.run(["sh", "-c", script], timeout=60).values()]


def test_each_host_has_its_own_name_address_and_processes(lab: Cluster) -> None:
    name = os.uname().nodename

    assert outputs(lab, "hostname") == outputs(lab, "cat /etc/hostname") == ["shared-0", "shared-1"]
    assert os.uname().nodename == name
    addresses = [machine.address for machine in lab.machines]
    assert outputs(lab, "ip -o -4 addr show dev eth0 | sed 's,.*inet ,,; s,/.*,,'") == addresses
    assert outputs(lab, "getent hosts shared-1 | cut -d' ' -f1") == [addresses[1]] * 2
    assert outputs(lab, "cat /proc/1/comm") == ["sshd", "sshd"]
    must(lab, 0, "setsid sleep 61.25 > /dev/null 2>&1 < /dev/null &")
    assert outputs(lab, "pgrep -fx 'sleep 61[.]25' | wc -l") == ["1", "0"]
    must(lab, 0, "pkill -fx 'sleep 61[.]25'")  # its own processes are all that it sees


def test_what_is_written_on_a_host_is_there_and_nowhere_else(lab: Cluster) -> None:
    places = ("/etc/mark-of-lab", "/usr/mark-of-lab", "/tmp/mark-of-lab")  # noqa: S108
    must(lab, 0, f"for place in {' '.join(places)}; do echo 0 > $place; done")

    assert outputs(lab, f"ls {' '.join(places)} 2> /dev/null | wc -l") == ["3", "0"]
    assert not any(Path(place).exists() for place in places)
    must(lab, 0, f"rm {' '.join(places)}")


@pytest.mark.usefixtures("own_labs")
def test_nothing_private_of_this_machine_is_seen() -> None:
    """Nor the state folder, which holds the keys of all clusters."""
    new = cluster.launch("new", provider="lab")
    hidden = [*(place for place in MASKED if Path(place).is_dir()), str(state_folder())]
    words = " ".join(map(shlex.quote, hidden))
    entries = outputs(new, f"find {words} -mindepth 1 2> /dev/null || :")

    assert entries == ["", ""]


@pytest.mark.serial  # it measures speed
def test_links_are_as_fast_and_as_long_as_was_said(own_labs: None) -> None:
    del own_labs
    c = cluster.launch(
        "long", provider="lab", options={"rate": "200mbit", "mtu": "9000", "overlay": "vxlan"}
    )

    assert outputs(c, "cat /sys/class/net/eth0/mtu") == ["9000", "9000"]
    assert outputs(c, "cat /sys/class/net/vxlan0/mtu") == ["8950", "8950"]
    inner = [machine.address for machine in c.machines]
    assert outputs(c, "ip -o -4 addr show dev vxlan0 | sed 's,.*inet ,,; s,/.*,,'") == inner
    assert must(c, 0, f"ip route get {inner[1]}").split()[2] == "vxlan0"
    result = c.bench("p2p", metrics=["oneway_time"], sizes="10MB", iterations=5)
    received = next(s for s in result.summary() if s.params["rank"] == 1)
    assert received.bound == pytest.approx(10e6 / (25e6 * (8950 - 52) / (9000 + 38)))
    assert received.share == pytest.approx(1.0, abs=0.1)


def test_the_verbs_take_effect(own_labs: None) -> None:
    """By number, name, id or address; `heal` makes the link as it was."""
    del own_labs
    command(*LAB, "--option", "rate=1gbit")
    c = cluster.attach("mine")
    address = c.machines[1].address
    look, knock = "tc qdisc show dev eth0", f"exec 3<> /dev/tcp/{address}/22"

    def rates() -> list[str]:
        return [words.split(" rate ")[1].split()[0] for words in outputs(c, look)]

    def answers() -> bool:
        return shell_of(c, 0).run(["timeout", "1", "bash", "-c", knock]).status == 0

    before = rates()
    assert "1.mpi.mine" in command("lab", "mine", "slow", "1").stdout
    assert rates()[0] == before[0] != rates()[1]
    command("lab", "mine", "slow", address, "--rate", "10mbit")
    assert rates()[1].startswith("9")
    command("lab", "mine", "heal", "mine-1")
    assert rates() == before
    command("lab", "mine", "cut", "1.mpi.mine")
    until(lambda: not answers(), "nothing passes")
    command("lab", "mine", "heal", "1")
    until(answers, "it passes again")
    command("lab", "mine", "kill", "1")
    until(lambda: not answers(), "nobody is there")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["burn", "0"], "There are: slow, cut, heal, kill"),
        (["cut", "7"], "There are: 0.mpi.shared, 1.mpi.shared"),
        (["cut", "0", "--rate", "1gbit"], "Leave it out"),
        (["slow", "0", "--rate", "fast"], "fast"),
    ],
)
def test_verbs_that_mean_nothing(lab: Cluster, words: list[str], message: str) -> None:
    assert message in command("lab", lab.name, *words, status=2).stderr


def test_32_hosts_come_up_at_once(own_labs: None) -> None:
    """In turns, 32 take 32 times as long as one."""
    del own_labs
    seconds = {}
    for name, hosts in ("warm", 1), ("one", 1), ("many", 32):
        start = time.monotonic()
        command("up", name, "--provider", "lab", "--hosts", str(hosts))
        seconds[name] = time.monotonic() - start
    command("down", "one", "warm")
    assert seconds["many"] < 16 * seconds["one"]
    lines = command("run", "many", "--", "hostname").stdout.splitlines()

    assert sorted(lines) == sorted(f"{n}.mpi.many: many-{n}" for n in range(32))
    assert "; 0 left" in command("down", "many").stdout


@pytest.mark.usefixtures("own_labs")
@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--option", "rate=fast"], ["'fast' is not a rate", "1gbit"]),
        (["--option", "rate=0"], ["rate"]),
        (["--option", "mtu=10"], ["The option mtu is 10; it must be between 576 and 65535."]),
        (["--option", "mtu=large"], ["mtu"]),
        (["--option", "overlay=foo"], ["overlay", "vxlan"]),
        (["--option", "root=/nonexistent"], ["no /usr/sbin/sshd in /nonexistent"]),
        (["--option", "speed=1gbit"], ["There are:", "rate", "mtu", "overlay", "root"]),
        (["--hosts", "1022"], ["--hosts is 1022; a lab has at most 1021."]),
        (["--hosts", "0"], ["--hosts"]),
        (["--placement=1"], ["placement", "its hosts are all on this machine"]),
        (["--instance", "c5.large"], ["instance"]),
    ],
)
def test_what_a_lab_cannot_be_is_refused(words: list[str], texts: list[str]) -> None:
    result = command(*LAB, *words, status=2)

    assert [text for text in texts if text not in result.stderr] == []
    assert len(result.stderr.strip().splitlines()) >= 1
    assert answer("ls") == []


AS_NOBODY = """
import os
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.providers.lab import LabProvider
spec = ClusterSpec(name="mine", provider="lab")
os.setresuid(65534, 65534, 65534)
try:
    LabProvider().plan(spec)
except SpecError as error:
    print(error)
"""


@pytest.mark.usefixtures("possible")
def test_somebody_else_than_root_is_told_to_become_root() -> None:
    output = run(sys.executable, "-c", AS_NOBODY).stdout

    assert "Type: sudo " in output


@pytest.mark.usefixtures("possible")
@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("ip", "sudo apt-get install iproute2"),
        ("ssh-keygen", "sudo apt-get install openssh-client"),
    ],
)
def test_a_tool_that_is_missing_is_named(
    tool: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PATH with everything else; where root's tools are is looked at as well."""
    for folder in (*os.environ["PATH"].split(":"), "/usr/sbin", "/sbin"):
        for path in Path(folder).glob("*") if Path(folder).is_dir() else ():
            if path.name != tool and not (tmp_path / "bin" / path.name).exists():
                (tmp_path / "bin").mkdir(exist_ok=True)
                (tmp_path / "bin" / path.name).symlink_to(path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("cluster.providers.lab.SBIN", "")
    with pytest.raises(SpecError) as refused:
        cluster.launch("mine", provider="lab")

    assert message in refused.value.remedy
    assert journal.names() == ()


@pytest.mark.usefixtures("possible")
def test_no_sshd_is_an_error_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.providers.lab.SSHD", "/usr/sbin/no-sshd")
    with pytest.raises(SpecError, match="no-sshd") as refused:
        cluster.launch("mine", provider="lab")

    assert refused.value.remedy == "Type: sudo apt-get install openssh-server"


def test_a_lab_of_a_container_is_not_taken_for_forgotten(possible: None, tmp_path: Path) -> None:
    """Its processes are seen from outside, its journal is not."""
    del possible
    script = f"exec -a unshare bash -c 'echo up; read line' {tmp_path}/alien/lab/init alien 0"
    for words, names in (([], ("alien",)), (["unshare", "--pid", "--fork"], ())):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([*words, "bash", "-c", script], **pipes) as process:  # type: ignore[call-overload]
            assert process.stdout.readline() == b"up\n"
            assert LabProvider().names() == names
            process.communicate(b"\n")
