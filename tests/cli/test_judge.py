"""`cluster judge`: a person in a hurry asks whether a number is normal."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.cli.commands import _log_files
from tests.conftest import command
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "recorded"


def judge(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return command("judge", *words, status=None, text=text)


def answer(*words: str, text: str = "") -> Any:
    return json.loads(judge(*words, "--json", text=text).stdout)


BUSBW = (
    "# nThread 1 nGpus 1 minBytes 1G maxBytes 1G step: 2(factor) warmup iters: 5 iters: 20\n"
    "# Collective test starting: all_reduce_perf\n{ranks}"
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
    " 1073741824 268435456 float sum -1 {us} {algbw} {busbw} 0 {us} {algbw} {busbw} 0\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw}\n"
)


def all_reduce(busbw: float, ranks: int, hosts: int, gpu: str = "NVIDIA A100-SXM4-40GB") -> str:
    """Write what all_reduce_perf prints at a bus bandwidth in GB/s."""
    algbw = busbw / (2 * (ranks - 1) / ranks)
    gpus = ranks // hosts
    lines = "".join(
        f"#  Rank {r:2} Group  0 Pid {r + 9} on host{r // gpus} device {r % gpus} [0x1{r}] {gpu}\n"
        for r in range(ranks)
    )
    micros = 1073741824 / algbw / 1e3
    return BUSBW.format(ranks=lines, us=f"{micros:.1f}", algbw=f"{algbw:.2f}", busbw=f"{busbw:.2f}")


def test_two_hosts_against_their_network() -> None:
    """2 x 8 A100 over 4 x 100 Gbit/s: 50 GB/s x 15/16 x 2 = 93.75 GB/s."""
    result = answer("-", "--hardware", "p4d.24xlarge", text=all_reduce(80.0, 16, 2))
    (verdict,) = result["verdicts"]

    assert result["verdict"] == "normal"
    assert verdict["metric"] == "busbw"
    assert verdict["bound"] == pytest.approx(93.75e9)
    assert verdict["share"] == pytest.approx(80 / 93.75)
    assert "2 hosts" in verdict["limit"]
    assert "EC2" in verdict["limit"]
    assert result["hardware"]["name"] == "p4d.24xlarge"


def test_the_gpus_of_the_log_are_enough_for_one_host(snapshot: Snapshot) -> None:
    result = judge("-", text=all_reduce(235.0, 8, 1))

    assert result.returncode == 0
    snapshot(result.stdout)


def test_a_threshold_above_physics_is_no_threshold(snapshot: Snapshot) -> None:
    """300 GB/s between hosts of p4d, which some tables ask for, is more than the network has."""
    result = judge("-", "--hardware", "p4d.24xlarge", text=all_reduce(300.0, 16, 2))

    assert result.returncode == 1
    snapshot(result.stdout)


def test_hosts_that_nvlink_joins_have_no_bound_by_their_network(snapshot: Snapshot) -> None:
    """4 interfaces of 400 Gbit/s carry 200 GB/s; NVLink between the hosts, more than four times."""
    words = ("-", "--hardware", "nic=400gbit,nics=4,rdma=yes,gpus=4", "--hosts", "18")
    plain = all_reduce(835.0, 72, 18, "NVIDIA Graphics Device")
    edge = "host0:9:9 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[0] via P2P/MNNVL\n"

    assert answer(*words, text=plain)["verdict"] == "impossible"
    for text in (plain + edge, all_reduce(835.0, 72, 18, "NVIDIA GB200")):
        result = answer(*words, text=text)
        (verdict,) = result["verdicts"]
        assert result["verdict"] == verdict["word"] == "unknown"
        assert verdict["bound"] is None
        snapshot(verdict["hint"])
    slow = answer(*words, text=all_reduce(2.0, 72, 18, "NVIDIA GB300"))
    assert slow["verdict"] == "unknown"


def test_a_low_number_says_what_to_look_at(snapshot: Snapshot) -> None:
    bw = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n4194304        1190.00\n"
    result = judge("-", "--hardware", "c5.18xlarge", "--hosts", "2", text=bw)

    assert result.returncode == 0  # it is an answer, and no failure
    snapshot(result.stdout)


def test_what_is_missing_is_said_and_nothing_is_guessed() -> None:
    bw = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n4194304        1190.00\n"

    assert "--hardware" in judge("-", text=bw).stdout
    assert "--hosts 2" in judge("-", "--hardware", "c5.18xlarge", text=bw).stdout
    result = answer("-", "--hardware", "c5.18xlarge", text=bw)
    assert result["verdict"] == "unknown"
    assert result["verdicts"][0]["bound"] is None


def test_a_log_that_records_a_failure_is_one(snapshot: Snapshot) -> None:
    text = all_reduce(235.0, 8, 1).replace("values : 0 OK", "values : 12 FAILED")
    result = judge("-", text=text)

    assert result.returncode == 1
    snapshot(result.stdout)


def test_several_values_have_an_interval_of_their_share() -> None:
    text = "".join(
        f"Process 1 transferred 100 MB in {90 + n % 5}.0 ms ({100e3 / (90 + n % 5):.1f} MB/sec)\n"
        for n in range(40)
    )
    (verdict,) = answer("-", "--hardware", "nic=10gbit", "--hosts", "2", text=text)["verdicts"]

    low, high = verdict["share_ci"]
    assert low <= verdict["share"] <= high
    assert verdict["share"] == pytest.approx(0.1e9 / (1.25e9 * 1448 / 1538) / 0.092)


def test_small_messages_are_not_called_low(snapshot: Snapshot) -> None:
    bw = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n8              12.00\n"
    result = judge("-", "--hardware", "c5.18xlarge", "--hosts", "2", text=bw)

    snapshot(result.stdout)


def test_logs_without_values_say_what_they_hold(snapshot: Snapshot) -> None:
    result = judge(str(LOGS / "nccl_log.two_nodes.txt"))

    snapshot(result.stdout)


def test_the_gpu_of_the_log_is_not_that_of_the_user(snapshot: Snapshot) -> None:
    result = judge("-", "--hardware", "h100", text=all_reduce(235.0, 8, 1))

    snapshot(result.stdout)


def test_links_of_nccl_are_counted_by_pair(snapshot: Snapshot) -> None:
    """A link has a line of its sender and one of its receiver, per channel."""
    link = "h{0}:1{0}:2 [0] NCCL INFO Channel 0{1}/0 : 0[0] -> 1[0] [{2}] via NET/IB/{1}{3}\n"
    ends = [(0, "send", "(4)/GDRDMA"), (1, "receive", "/GDRDMA(PCI)")]
    text = "".join(link.format(h, c, way, end) for c in (0, 1) for h, way, end in ends)
    result = judge("-", text=text)

    snapshot(result.stdout)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--hardware", "p99"), "no hardware 'p99'"),
        (("--hosts", "0"), "--hosts is 0"),
        (("--log-format", "nothing"), "nothing"),
    ],
)
def test_wrong_usage_is_refused_with_what_to_type(words: tuple[str, ...], says: str) -> None:
    result = judge("-", *words, text=all_reduce(235.0, 8, 1))

    assert result.returncode == 2
    assert says in result.stderr


def test_runs_are_judged_by_any_name_and_show_says_the_same(home: Path, snapshot: Snapshot) -> None:
    """Of an imported log here; by hardware that only the user knows, where it is named."""
    del home
    run = answer("-", "--keep", "--hardware", "p4d.24xlarge", text=all_reduce(80.0, 16, 2))["run"]
    result = command("show", status=None)

    for name in ("latest", run, Path(run).name, Path(run).parent.name):
        again = judge(name)
        assert again.returncode == 0
        assert again.stdout.startswith("NORMAL")
        assert again.stdout.splitlines()[-1] == result.stdout.splitlines()[-1]
    snapshot(result.stdout)
    assert judge("latest", "--hardware", "nic=400gbit,nics=8,rdma=yes,gpus=8").stdout.startswith(
        "LOW"
    )
    assert len(list(Path(run).parent.iterdir())) == 1, "nothing was written"


def test_a_log_is_kept_only_if_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a look at somebody's log is never `latest`, and needs no folder to write to."""
    (home / "file").touch()
    monkeypatch.setenv("CLUSTER_RUNS", str(home / "file" / "runs"))
    text = all_reduce(235.0, 8, 1)

    assert answer("-", text=text)["verdict"] == "normal"
    assert answer("-", text=text)["run"] == ""
    assert judge("-", "--keep", text=text).returncode == 1
    for flag in ("--name", "--runs"):
        refused = judge("-", flag, "other", text=text)
        assert refused.returncode == 2
        assert "--keep" in refused.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nosuch.log",), "There is neither a file nor a run 'nosuch.log'."),
        (("latest", "other"), "2 names were given, and none is a file"),
        (("latest", "--hosts", "2"), "--hosts is for logs"),
    ],
)
def test_what_is_no_run_is_refused(words: tuple[str, ...], says: str) -> None:
    refused = judge(*words)

    assert refused.returncode == 2
    assert says in refused.stderr


@pytest.mark.parametrize(
    ("busbw", "gate", "status"),
    [
        (80.0, "low", 0),
        (20.0, "low,unknown", 3),
        (20.0, "unknown", 0),
        (300.0, "low", 1),
        (80.0, "moon", 2),
        (80.0, "", 2),
    ],
)
def test_gates(snapshot: Snapshot, busbw: float, gate: str, status: int, tmp_path: Path) -> None:
    """0 fine, 1 impossible, 2 wrong usage, 3 a gate was hit; the file has a case per series."""
    junit = tmp_path / "junit.xml"
    words = ("--hardware", "p4d.24xlarge", "--fail-on", gate, "--junit", str(junit))
    result = judge("-", *words, text=all_reduce(busbw, 16, 2))

    assert result.returncode == status
    if status == 2:
        snapshot(result.stderr)
        return
    assert ("<failure" in junit.read_text()) is (status != 0)
    assert ("Gate: " in result.stderr) is (status == 3)


def test_github_gets_annotations_and_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    words = ("--hardware", "p4d.24xlarge", "--github", "--json")
    result = judge("-", *words, text=all_reduce(20.0, 16, 2))

    assert json.loads(result.stdout)["verdict"] == "low"
    assert "::warning title=busbw" in result.stderr
    assert "| LOW |" in summary.read_text()


def test_show_and_report_say_the_same(tmp_path: Path) -> None:
    text = all_reduce(300.0, 16, 2)
    run = answer("-", "--keep", "--hardware", "p4d.24xlarge", text=text)["run"]
    result = command("show", run, status=None)
    page = tmp_path / "report.html"
    command("report", run, "-o", str(page))

    assert "320.0%" in result.stdout
    assert "(certain)" in result.stdout
    assert "320.0%" in page.read_text()


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded logs are not here")
@pytest.mark.parametrize(
    ("log", "words", "word", "share"),
    [
        ("nccl_tests/allreduce.log", (), "normal", 0.784),
        ("nccl_tests/alltoall.log", (), "normal", 0.754),
        ("nccl_tests/allreduce_2xk80.txt", ("--hardware", "p2.8xlarge"), "plausible", 0.509),
        ("bandwidth/bandwidthtest_csv.txt", (), "normal", 0.566),
        ("bandwidth/nvbandwidth.log", (), "normal", 0.694),
        ("iperf/iperf3_tcp.json", ("--hardware", "nic=1gbit"), "normal", 0.992),
        ("iperf/iperf3_tcp.json", ("--hardware", "nic=100mbit"), "impossible", 9.437),
        ("mlbench_p2p/cpu/1000000000", ("--hardware", "n1-standard-4"), "unknown", None),
        (
            "mlbench_p2p/cpu/1000000000",
            ("--hardware", "n1-standard-4", "--hosts", "2"),
            "normal",
            0.790,
        ),
        ("osu/latency.txt", ("--hardware", "c5n.18xlarge", "--hosts", "2"), "low", None),
        ("topology/h100_8xnv18.txt", (), "unknown", None),
        ("training/horovod_resnet.txt", (), "unknown", None),
    ],
)
def test_recorded_logs(log: str, words: tuple[str, ...], word: str, share: float | None) -> None:
    result = answer(str(RECORDED / log), *words)

    assert result["verdict"] == word
    shares = [verdict["share"] for verdict in result["verdicts"]] or [None]
    assert share is None or any(s == pytest.approx(share, abs=5e-4) for s in shares)


def test_a_rate_of_udp_that_was_asked_for_is_not_called_low(snapshot: Snapshot) -> None:
    lossless = (LOGS / "iperf3.both_ways.txt").read_text().replace("15/150 (10%)", "0/150 (0%)")
    result = judge("-", "--hardware", "p4d.24xlarge", "--hosts", "2", text=lossless)

    assert result.returncode == 0
    snapshot(result.stdout)


PEERS = (
    "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n"
    "Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 41, pciDeviceID: 0, pciDomainID:0\n"
    "Device: 1, NVIDIA GeForce RTX 3090, pciBusID: 61, pciDeviceID: 0, pciDomainID:0\n"
    "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
    "   D\\D     0      1 \n     0 829.35  11.17 \n     1  11.42 830.63 \n"
)


def test_a_matrix_of_peers_is_not_judged_by_copies_within_a_gpu(snapshot: Snapshot) -> None:
    """The copies within are normal; of those between two boards, nobody knows what is usual."""
    result = answer("-", text=PEERS)

    assert result["verdict"] == "plausible"
    snapshot(result["answer"])


def test_the_line_that_answers_names_a_limit_and_not_its_source(snapshot: Snapshot) -> None:
    text = (
        "Running device_to_device_memcpy_read_ce.\n"
        "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
        "          0         1\n0       N/A    172.16\n1    171.99       N/A\n"
    )
    result = answer("-", "--hardware", "a800", text=text)
    snapshot(result["answer"])


def test_a_value_above_an_assumed_limit_says_what_to_find_out(snapshot: Snapshot) -> None:
    text = "[SUM]  0.0-30.0 sec    337 GBytes  96.4 Gbits/sec\n"
    result = judge("-", "--hardware", "nic=100gbit", "--hosts", "2", text=text)

    assert result.returncode == 0
    snapshot(result.stdout)


def test_messages_that_are_all_small_ask_for_larger_ones(snapshot: Snapshot) -> None:
    text = "# OSU MPI Bandwidth Test v7.2\n# Size      Bandwidth (MB/s)\n65536 1157.28\n"
    result = answer("-", "--hardware", "nic=200gbit,rdma=yes", "--hosts", "2", text=text)

    assert result["verdict"] == "unknown"
    snapshot(result["answer"])


IPERF3 = (
    "[  5] local {0} port 51234 connected to {1} port 5201\n"
    "[ ID] Interval           Transfer     Bitrate         Retr\n"
    "[  5]   0.00-2.00   sec  9.86 GBytes  42.3 Gbits/sec    0             sender\n"
    "[  5]   0.00-2.04   sec  9.86 GBytes  41.5 Gbits/sec                  receiver\n"
)


def test_what_stays_on_a_host_is_not_held_against_its_network(snapshot: Snapshot) -> None:
    """Both ends have the address of one host: 41.5 Gbit/s over 10 Gbit/s is not impossible."""
    inside = answer("-", "--hardware", "nic=10gbit", text=IPERF3.format("10.0.0.5", "10.0.0.5"))
    between = answer("-", "--hardware", "nic=10gbit", text=IPERF3.format("10.0.0.5", "10.0.0.6"))

    assert inside["verdict"] == "unknown"
    snapshot(inside["verdicts"][0]["hint"])
    assert between["verdict"] == "impossible"


def test_what_has_no_figures_is_sent_to_what_shows_it(snapshot: Snapshot) -> None:
    page = "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n"

    snapshot(judge("-", text=page).stdout)


def test_a_published_result_without_a_word_leaves_the_question_for_the_hosts(
    snapshot: Snapshot,
) -> None:
    log = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n4194304     2211.20\n"
    verdict = answer("-", "--hardware", "standard_hb120rs_v3", text=log)["verdicts"][0]

    assert verdict["published"]
    snapshot(verdict["hint"])


def test_a_log_that_takes_long_is_said_to_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_log_files, "NOTICE", 0.01)
    text = ""
    with _log_files.progress(["a.log"]):
        while len(re.findall(r"Still reading a\.log: \d+ s\n", text)) < 2:  # of whatever seconds
            text += capsys.readouterr().err
