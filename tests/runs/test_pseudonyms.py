"""Names that chance makes up, in all the places where programs write them: none is shared."""

from __future__ import annotations

import json
import random
import shutil
import string
from typing import TYPE_CHECKING

import pytest

from cluster.runs import share, shared_file
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEX = string.hexdigits[:16]
TIMES = 20  # names of each kind


def some(chance: random.Random, letters: str, count: int) -> str:
    return "".join(chance.choices(letters, k=count))


def word(chance: random.Random) -> str:
    return some(chance, "bcdfghjkqvwxz", 9)


def ipv6(chance: random.Random) -> str:
    groups = [some(chance, HEX[1:], 4) for _ in range(8)]
    groups[0] = "2a05"
    written = (
        ":".join(groups),
        f"{':'.join(groups[:3])}::{groups[7]}",
        f"{':'.join(groups[:3])}::",
    )
    return chance.choice(written)


def mac(chance: random.Random) -> str:
    pairs = [some(chance, HEX, 2) for _ in range(chance.choice((6, 20)))]
    pairs[0] = "b8"
    written = (":".join(pairs), "-".join(pairs[:6]), ":".join(pairs).upper())
    return chance.choice(written)


# What is a name by its form alone.
FORMS: dict[str, Callable[[random.Random], str]] = {
    "IPv4": lambda c: ".".join(str(c.randint(11, 223)) for _ in range(4)),
    "IPv6": ipv6,
    "MAC": mac,
    "instance": lambda c: f"i-{some(c, HEX, 17)}",
    "UUID": lambda c: "-".join(some(c, HEX, n) for n in (8, 4, 4, 4, 12)),
    "host of EC2": lambda c: (
        f"ip-{'-'.join(str(c.randint(10, 223)) for _ in range(4))}.ec2.internal"
    ),
    "host of a domain": lambda c: f"{word(c)}{c.randint(1, 99)}.{word(c)}.edu",
    "e-mail": lambda c: f"{word(c)}@{word(c)}.org",
    "key": lambda c: f"AKIA{some(c, string.ascii_uppercase + string.digits, 16)}",
}
PATHS = ("/home/{}/{}", "/gscratch/{}/{}", "/mnt/{}/a.b/{}", "/Users/{}/{}")
# What is a name because of the words around it; then it is one everywhere.
TOLD: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "user": ("USER={}\n", word),
    "user by number": ("uid=1000({}) gid=1000\n", word),
    "home": ("cd /home/{}/x\nssh {}@node\n", word),
    "account": ("arn:aws:iam::{}:role/x\n", lambda c: some(c, string.digits[1:], 12)),
    "host of NCCL": ("{}:4242:4250 [0] NCCL INFO\n", lambda c: f"{word(c)}-{c.randint(0, 99)}"),
    "host of Slurm": ("SLURMD_NODENAME={}\n", lambda c: f"nid{c.randint(1000, 9999)}"),
}


def host(chance: random.Random) -> str:
    return f"{word(chance)}{chance.randint(1, 99):02}"


def hexes(count: int) -> Callable[[random.Random], str]:
    return lambda chance: f"b{some(chance, HEX, count - 1)}"


# What programs write around names: each {} is another one.
LINES: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "launchers before NCCL": (
        (
            "0: {}:42:43 [0] NCCL INFO x\n[1,0]<stdout>:{}:42:43 [1] NCCL WARN x\n"
            "2026-11-24T04:01:17Z {}:42:43 [7] NCCL INFO x\nworker-3: {}:42:43 [0] NCCL INFO x"
        ),
        host,
    ),
    "Open MPI": (
        (
            "[{}:12345] *** Process received signal ***\n[{}][[1234,1],0][btl_tcp.c:626] x\n"
            "from {} to: {} Unable to connect\n  Local host:     {}\n"
            "mpirun -np 16 -H {}:8,{}:8 ./x\nmpirun --host {}:8 ./x\n"
            '["mpirun", "--host", "{}:8"]'
        ),
        host,
    ),
    "Intel MPI": ("[0] MPI startup(): 0       4242     {}    {{0,1}}", host),
    "a list of ranks": ("# Rank 0 on {}\nRank: 1 pid 42 on host {}", host),
    "Slurm": (
        (
            "srun: error: {}: tasks 0-3: Killed\nNodeList={} BatchHost={}\nSLURM_SUBMIT_HOST={}\n"
            "slurmstepd: error: *** STEP 4711.0 ON {} CANCELLED AT x ***\nExcNodeList={}\n"
            "salloc: Nodes {} are ready for job\nsrun -w {} -n 4 ./x\nSLURM_CLUSTER_NAME={}"
        ),
        host,
    ),
    "Slurm, lists": (
        "SLURM_NODELIST='{}[01-16],{}[1,3-5]'\nsrun: error: {}[07-09]: tasks 0-3: Killed",
        word,
    ),
    "other batch systems": ("LSB_HOSTS={} {}\nLSB_MCPU_HOSTS='{} 4 {} 4'\nPBS_O_HOST={}", host),
    "tables of Slurm": (
        (
            "  JOBID PARTITION  NAME USER ST TIME NODES NODELIST(REASON)\n"
            "   4711       gpu train {} R 0:10 2 {}[01-02]\ngpu* up infinite 2 idle {}[03-04]"
        ),
        word,
    ),
    "files of hosts": (
        "exec_host = {}/0*8+{}/1*8\n{} slots=8\n10.1.2.3 {} {}.local\nSysName: {}\nCA: {} mlx5_0:",
        host,
    ),
    "other tools": (
        (
            "PING {} (10.1.2.3) 56(84) bytes\n[1700.5] [{}:42 :0] ucp_context.c:1\n"
            "failed to connect to [{}]:29500\nto an IPv6 address of ({}, 29500)\n{}\nDevice 0: x"
        ),
        host,
    ),
    "torchrun": ("MASTER_ADDR={}\n--rdzv_endpoint={}:29500 --master_addr {}", host),
    "the network": (
        (
            "Connecting to host {}, port 5201\nAccepted connection from {}, port 5201\n"
            "ssh: connect to host {} port 22: x\nssh: Could not resolve hostname {}: x\n"
            "Permanently added '{}' (ED25519)\nhttps_proxy=http://{}:3128\nscp u@{}:x .\n"
            "Linux {} 6.8.0-1021-aws #23 SMP\n"
            "TCP STREAM TEST from 0.0.0.0 () port 0 AF_INET to {} ()"
        ),
        host,
    ),
    "JSON": (
        (
            '{{"host": "{}", "nodes": ["{}", "{}"], "connecting_to": {{"host":"{}"}}}}\n'
            '{{"in": "{{\\"hostname\\": \\"{}\\"}}"}}'
        ),
        host,
    ),
    "Kubernetes": (
        (
            'pod/{} condition met\npod "{}" deleted\n{}-worker-0 1/1 Running\nPOD_NAMESPACE={}\n'
            "x.{}.svc:4242\ngke-{}-1a2b3c4d-x9yz\naks-{}-12345678-vmss000000"
        ),
        word,
    ),
    "InfiniBand": (
        'Ca 36 "H-{}" # "x mlx5_0"\n[1]({}) "S-{}"[12]\nsys_image_guid: 0x{}',
        hexes(16),
    ),
    "users": (
        (
            "-rw-r--r-- 1 {} {} 123 Nov 24 x\n{}  42  0.0  0.1 python x\ncd ~{}/x\n"
            "UserId={}(1000) GroupId={}(1000)\nuid=1({}) gid=1({}) groups=1({}),27({})\n"
            "https://{}:hunter2@x.example\nSUDO_USER={}\nHOME=/{}"
        ),
        word,
    ),
    "accounts": (
        (
            'SLURM_JOB_ACCOUNT={}\nAccount={}\nGOOGLE_CLOUD_PROJECT={}\n"project_id": "{}"\n'
            "--project {} --project={}\ngcloud config set project {}\nwandb.ai/{}/{}/runs\n"
            "gcr.io/{}/x x-docker.pkg.dev/{}/x git@github.com:{}/x.git namespace: {}"
        ),
        word,
    ),
    "accounts of Amazon": (
        (
            "arn:aws:iam::123456789012:role/{}\narn:aws:sts::123456789012:assumed-role/{}/{}\n"
            "arn:aws:s3:::{}/x\ns3://{}/{}/x\ngs://{}/x"
        ),
        word,
    ),
    "Google's links": (
        (
            "https://www.googleapis.com/compute/v1/projects/{}/zones/us-central1-a/instances/{}\n"
            "projects/{}/global/networks/{}"
        ),
        word,
    ),
    "ids of Amazon": ("pg-{} lt-{} cr-{} fs-{} nn-{}", hexes(17)),
    "containers": ("docker://{}\n0::/system.slice/docker-{}.scope", hexes(64)),
    "machines": ("machine-id {}\n/etc/machine-id: {}", hexes(32)),
    "keys": ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{}", hexes(43)),
    "e-mail": ("x <a@{}.org>\nb@{}.ai\nmailto:c@{}.example.edu", word),
    "domains": ("n1.{}.io n1.{}.ai n1.{}.it\nhttps://{}.com/x", word),
    "serial numbers": ('Serial Number : {}\n"serial": "{}"\nsn: {}', lambda c: word(c).upper()),
}
PLACES = (
    "x {} y",
    "it is {}.",
    "({}), [{}]",
    "\x1b[1;32m{}\x1b[0m",
    "\x1b[0m{}\x1b[K",
    "a,{},b",
    "'{}'",
    "host={};",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "old" / "20261121T144700Z-p2p"
    shutil.copytree(ROOT / "tests" / "plain_run", made)
    (made / "raw").mkdir()
    return made


def shared(folder: Path) -> str:
    return shared_file.encode(share.prepare(folder)[0]).decode().lower()


def write(folder: Path, name: str) -> None:
    """Plant a name in a log, in the keys and the values of JSON, and in the name of a file."""
    text = "\n".join(place.replace("{}", name) for place in PLACES)
    raw = folder / "raw"
    (raw / "out.log").write_text(text)
    (raw / "out.json").write_text(json.dumps({name: {"of": [name, text]}, f"a {name}": 1}))
    (raw / "out.jsonl").write_text(json.dumps({"lines": f"first\n{name}\n{name}\t{name}"}) + "\n")
    (raw / f"rank_{name.replace('/', '_')}.0.log").write_text("")


@pytest.mark.parametrize("kind", FORMS)
def test_a_name_of_a_known_form_is_shared_nowhere(kind: str, folder: Path) -> None:
    chance = random.Random(11)
    for _ in range(TIMES):
        name = FORMS[kind](chance)
        write(folder, name)
        text = shared(folder)
        shutil.rmtree(folder / "raw")
        (folder / "raw").mkdir()

        assert name.lower() not in text, name


@pytest.mark.parametrize("kind", TOLD)
def test_a_name_that_its_words_tell_is_shared_nowhere(kind: str, folder: Path) -> None:
    told, make = TOLD[kind]
    chance = random.Random(12)
    for _ in range(TIMES):
        name = make(chance)
        write(folder, name)
        (folder / "raw" / "told.log").write_text(told.replace("{}", name))
        text = shared(folder)
        shutil.rmtree(folder / "raw")
        (folder / "raw").mkdir()

        assert name not in text, name


@pytest.mark.parametrize("kind", LINES)
def test_a_name_beside_what_programs_write_is_shared_nowhere(kind: str, folder: Path) -> None:
    lines, make = LINES[kind]
    chance = random.Random(14)
    names = [[make(chance) for _ in range(lines.count("{}"))] for _ in range(3)]
    text = "\n".join(lines.format(*some) for some in names)
    (folder / "raw" / "out.log").write_text(f"first\n{text}\nlast\n")
    (folder / "raw" / "out.json").write_text(json.dumps({"out": text, "one": text.split("\n")}))
    seen = shared(folder)

    assert not [name for some in names for name in some if name.lower() in seen]


def test_the_hosts_of_a_compressed_list_are_replaced_alone_too(folder: Path) -> None:
    (folder / "raw" / "a.log").write_text("SLURM_NODELIST=quux[07-09]\n")
    (folder / "raw" / "b.log").write_text("quux07 is slower than quux08, and quux is a word\n")
    made, found = share.prepare(folder)
    text = next(part.text for part in made.parts if part.name == "raw/b.log")
    known = {each.original: each.pseudonym for each in found}

    assert text == f"{known['quux07']} is slower than {known['quux08']}, and quux is a word\n"


def test_a_host_with_a_domain_is_replaced_without_it_too(folder: Path) -> None:
    (folder / "raw" / "a.log").write_text(
        "quux07.hpc.example.edu, and quux07 alone; quux is a word"
    )
    made, found = share.prepare(folder)
    text = next(part.text for part in made.parts if part.name == "raw/a.log")
    known = {each.original: each.pseudonym for each in found}

    long, short = known["quux07.hpc.example.edu"], known["quux07"]
    assert text == f"{long}, and {short} alone; quux is a word"


def test_a_gid_in_decimal_hides_its_address(folder: Path) -> None:
    gid = "00:00:00:00:00:00:00:00:00:00:255:255:10:09:08:07"
    (folder / "raw" / "a.log").write_text(f" local address: LID 0 QPN 0x1 GID: {gid}\n")

    assert "10:09:08:07" not in shared(folder)


@pytest.mark.parametrize("form", PATHS)
def test_no_folder_of_a_user_is_shared(form: str, folder: Path) -> None:
    chance = random.Random(13)
    for _ in range(TIMES):
        user, project = word(chance), word(chance)
        path = form.format(user, project)
        lines = f"cc -I{path}/include {path}/a.c\nfile://{path} {path}.\n\x1b[1m{path}\x1b[0m\n"
        (folder / "raw" / "out.log").write_text(lines)
        (folder / "raw" / "out.json").write_text(
            json.dumps({"in": f"\n{path}\t", path: 1}).replace("/", "\\/")
        )
        text = shared(folder)

        assert user not in text
        assert project not in text


def test_a_thousand_addresses_stay_a_thousand_and_are_the_same_everywhere(folder: Path) -> None:
    addresses = [f"10.{number // 250}.7.{number % 250 + 1}" for number in range(1000)]
    (folder / "raw" / "a.log").write_text("\n".join(addresses))
    (folder / "raw" / "b.log").write_text("\n".join(reversed(addresses)))
    made, _ = share.prepare(folder)
    first, second = (
        next(part.text for part in made.parts if part.name == name).splitlines()
        for name in ("raw/a.log", "raw/b.log")
    )

    assert len(set(first)) == len(first) == len(addresses)
    assert first == second[::-1]


@pytest.mark.parametrize(
    "text",
    [
        "libnccl.so.2.27.7 NET/OFI Selected provider is efa, /usr/lib/x86_64-linux-gnu/libefa.so",
        "8 float sum -1 487.09 GB/s at 12:30:45 on 0000:53:00.0, netmask 255.255.255.0",
        "/dev/infiniband/uverbs0 /proc/self/maps /sys/class/net/eth0/speed /opt/amazon/efa/lib",
        "std::move add::of 1:2:3 P2P/CUMEM/read 2/4 net.core.rmem_max torch.nn.functional",
        "c10d::allreduce_ 0x7f12ab34cd561234 137438953472 1e-6 2026-11-24T04:01:17",
        "[E socket.cpp:860] [btl_tcp_endpoint.c:626] host: none, hosts: 2, on node 0, user=0.1 s",
        "host memory to device memory; https://github.com/NVIDIA/nccl-tests Rank 0 on device 0",
    ],
)
def test_what_names_nobody_stays(text: str, folder: Path) -> None:
    (folder / "raw" / "a.log").write_text(text)
    made, _ = share.prepare(folder)

    assert next(part.text for part in made.parts if part.name == "raw/a.log") == text
