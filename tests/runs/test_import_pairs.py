"""Logs of pairs of hosts that other tools wrote: public ones, and bad ones."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from cluster.core.errors import ParseError, SpecError
from cluster.core.model.network.fleet import FleetVerdict, PairMetric
from cluster.core.model.results.records import Note
from cluster.orchestration.fleet_check import judge_fleet
from cluster.orchestration.proximity import judge_placement, read_groups
from cluster.reports.words.notes import note_words
from cluster.runs.import_.pairs import PairLogOptions, import_pairs
from tests.logs.samples import LOGS as TOOLS
from tests.snapshots import Snapshot

LOGS = Path(__file__).parent / "pair_logs"
OSU = (
    "# OSU MPI Bandwidth Test v5.8\n# Size      Bandwidth (MB/s)\n"
    "1048576 {0:.2f}\n4194304 {0:.2f}\n"
)


def judge(tmp_path: Path, *files: Path | str, **options: Any) -> FleetVerdict:
    words = [str(file) for file in files]
    return judge_fleet(import_pairs(words, tmp_path / "runs", PairLogOptions(**options)))


def folder(tmp_path: Path, hosts: int = 6, rate: float = 24000.0) -> Path:
    """A log per pair."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for a, b in combinations(range(1, hosts + 1), 2):
        (logs / f"bw_n{a}_n{b}.log").write_text(OSU.format(rate))
    return logs


def test_a_log_that_ends_early_is_a_pair_without_a_value(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """All others have 4 MiB: they are not compared at the size that this one has, too."""
    logs = folder(tmp_path)
    cut = logs / "bw_n2_n5.log"
    cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:-1]))
    for log in logs.iterdir():
        log.write_text(log.read_text().replace("4194304 24000.00", "4194304 25000.00"))
    verdict = judge(tmp_path, logs)

    assert (verdict.verdict, verdict.tests, verdict.reference) == ("HEALTHY", 14, 25e9)
    snapshot(verdict.missing)


def test_two_groups_that_share_links_are_no_fault_of_a_host(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """A4: alltoall between 17 hosts of 8 H100: 23 GB/s within two groups, 11 to 17 between them."""
    verdict = judge(tmp_path, LOGS / "alltoall_g8.csv")
    (finding,) = verdict.observations
    assert verdict.blamed == ()

    assert (verdict.verdict, verdict.tests, verdict.failed) == ("HEALTHY", 131, 5)
    assert (finding.part, finding.kind) == ("fabric", "SHARED")
    snapshot(finding.evidence)
    snapshot(verdict.missing)
    assert verdict.undecided == ()


def test_pairs_that_collide_are_unstable_and_no_host_is_blamed(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """A4: with one GPU of each of 17 hosts, eight of 130 pairs are slow; each has good ones."""
    verdict = judge(tmp_path, LOGS / "alltoall_g1.csv")
    (pairs,) = verdict.observations
    assert verdict.blamed == ()

    assert (verdict.verdict, verdict.tests, verdict.failed) == ("UNDECIDED", 130, 6)
    assert (pairs.part, pairs.kind, pairs.tests) == ("pairs", "UNSTABLE", 8)
    snapshot(pairs.evidence)


def test_eight_hosts_in_two_groups_are_no_fault_of_a_host(tmp_path: Path) -> None:
    """A4: 25.6 GB/s within groups of five and three hosts, 22.1 GB/s between them."""
    verdict = judge(tmp_path, LOGS / "alltoall_g1_eight.csv")

    assert (verdict.verdict, verdict.undecided) == ("HEALTHY", ())
    assert [(item.part, item.kind) for item in verdict.observations] == [("fabric", "SHARED")]
    assert verdict.blamed == ()


def test_a_log_without_the_metric_is_left_out(tmp_path: Path, snapshot: Snapshot) -> None:
    verdict = judge(tmp_path, LOGS / "cyclecloud32.out", TOOLS / "mpip.fft.txt")

    assert verdict.tests == 28
    with snapshot.raises(SpecError):
        judge(tmp_path, TOOLS / "mpip.fft.txt")


def test_send_and_receive_between_the_same_hosts_has_no_finding(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """A4: one pair has no row, and those of the first six were not kept."""
    verdict = judge(tmp_path, LOGS / "sendrecv_g8.csv")

    assert (verdict.verdict, verdict.blamed, verdict.undecided) == ("HEALTHY", (), ())
    assert verdict.failed == 136 - 125
    snapshot(verdict.missing)


def test_infiniband_hosts_of_a_cloud_are_healthy(tmp_path: Path) -> None:
    """A4: CycleCloud, one file with all pairs, bandwidth and latency."""
    verdict = judge(tmp_path, LOGS / "cyclecloud32.out")

    assert (verdict.verdict, verdict.blamed, verdict.tests) == ("HEALTHY", (), 28)
    assert verdict.reference == pytest.approx(24.67e9, rel=1e-3)
    assert len(verdict.assumptions) == 3


def test_a_few_low_pairs_blame_nobody(snapshot: Snapshot, tmp_path: Path) -> None:
    """A4: AKS, where some tests ran while others did; the hosts are in Flux' job specification."""
    verdict = judge(tmp_path, LOGS / "aks32")

    assert verdict.verdict == "UNDECIDED"
    assert [finding for finding in verdict.blamed if finding.part.startswith("host")] == []
    assert len(verdict.undecided) == 5
    snapshot(verdict.undecided)


def place(tmp_path: Path, file: str) -> tuple[list[int], str, float | None]:
    options = PairLogOptions(metric="latency")
    placement = judge_placement(import_pairs([str(LOGS / file)], tmp_path, options))
    sizes = sorted((placement.groups.count(g) for g in set(placement.groups)), reverse=True)
    return sizes, placement.answer, placement.gap


SINGLES = [1] * 15

PLACED: dict[str, tuple[list[int], float, str]] = {
    "pcluster32.out": ([4, 2, 1, 1], 1.139, "the chance that it is noise is 0.0006)"),
    "pcluster64.csv": ([5, 2, 1], 1.169, "the chance that it is noise is below 0.0001)"),
    "pcluster128.csv": ([3, 2, 2, 1], 1.136, "the chance that it is noise is 0.009)"),
    "eks32.csv": ([3, 2, 2, 1], 1.065, "the chance that it is noise is 0.009)"),
    "eks32_noefa.csv": ([4, 3, *SINGLES], 1.064, "the chance that it is noise is 0.002)"),
    "eks128.csv": ([4, 3, 1], 1.128, "the chance that it is noise is below 0.0001)"),
    "gke32.csv": ([4, 3, 1], 1.094, "the chance that it is noise is below 0.0001)"),
    "gce128.csv": ([7, 1], 1.060, "the chance that it is noise is 0.005)"),
}
REFUSED = {
    "eks256.csv": (1.773, "2 pairs would be in one group and are not near"),
    "gke64.csv": (1.104, "as many near pairs at random would form groups with a chance of 0.56"),
    "gce256.csv": (1.093, "as many near pairs at random would form groups with a chance of 1"),
    "gce32.csv": (1.033, "the largest gap between latencies is 1.033 x"),
    "gke128.csv": (1.006, "the largest gap between latencies is 1.006 x"),
    "gke256.csv": (1.006, "the largest gap between latencies is 1.006 x"),
    "cyclecloud32.out": (1.006, "the largest gap between latencies is 1.006 x"),
    "cyclecloud128.csv": (1.006, "the largest gap between latencies is 1.006 x"),
    "cyclecloud256.csv": (1.013, "the largest gap between latencies is 1.013 x"),
}


@pytest.mark.parametrize("file", PLACED)
def test_latencies_of_logs_show_the_placement(tmp_path: Path, file: str) -> None:
    """E1: eight hosts, all pairs; "noefa": 41 of the pairs of 22 hosts; gce128: 15 of 28 pairs."""
    sizes, gap, chance = PLACED[file]
    groups, answer, value = place(tmp_path, file)

    assert groups == sizes
    assert value == pytest.approx(gap, abs=5e-4)
    assert chance in answer


def test_hosts_that_may_belong_to_a_group_are_counted(snapshot: Snapshot, tmp_path: Path) -> None:
    """E1: 13 of 15 hosts were tested with one host only; the other two with both groups."""
    snapshot(place(tmp_path, "eks32_noefa.csv")[1])
    assert "single hosts" not in place(tmp_path / "whole", "gce128.csv")[1]


@pytest.mark.parametrize("file", REFUSED)
def test_latencies_without_structure_are_refused(tmp_path: Path, file: str) -> None:
    """E1: each with the condition that fails; of gce32 and gce256, 8 of 28 pairs are known."""
    gap, reason = REFUSED[file]
    groups, answer, value = place(tmp_path, file)

    assert not groups
    assert value == pytest.approx(gap, abs=5e-4)
    assert answer.startswith(f"No structure seen: {reason}")


@pytest.mark.parametrize("file", sorted({*PLACED, *REFUSED} - {"gce128.csv", "gce256.csv"}))
def test_distance_is_no_fault(tmp_path: Path, file: str) -> None:
    verdict = judge(tmp_path, LOGS / file, metric="latency")
    assert (verdict.verdict, verdict.blamed, verdict.undecided) == ("HEALTHY", (), ())


def test_a_host_that_is_far_from_all_others_is_undecided(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    lines = [
        f"n{a},n{b},{30 if 3 in (a, b) else 15 + (a + b) / 50}"
        for a, b in combinations(range(9), 2)
    ]
    (tmp_path / "far.csv").write_text("host_a,host_b,us\n" + "\n".join(lines))
    verdict = judge(tmp_path, tmp_path / "far.csv", metric="latency")

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    snapshot(verdict.undecided[0])
    (undecided,) = judge(tmp_path, LOGS / "gce128.csv", metric="latency").undecided
    assert undecided.startswith("host:2 (flux-078): ")


@pytest.mark.parametrize("series", ["alltoall", "sendrecv"])
def test_one_of_several_tests_is_judged(tmp_path: Path, series: str, snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        judge(tmp_path, LOGS / "nccl" / "nccl_N2_G1_cnode2-004_cnode2-009.log")
    verdict = judge(tmp_path, LOGS / "nccl", series=series)

    snapshot(verdict.answer)


def test_a_failed_test_before_another_has_its_own_reason(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    """Both tests of the log failed before their first row; the second is no part of the first."""
    file = LOGS / "nccl" / "nccl_N2_G8_cnode2-002_cnode2-008.log"
    verdict = judge(tmp_path, file)

    assert len(verdict.missing) == 2
    snapshot(verdict.missing[0])


@pytest.mark.parametrize("bad", [(2,), (2, 5)])
@pytest.mark.parametrize("share", [0.4, 0.8])
def test_planted_hosts_are_named(
    snapshot: Snapshot, tmp_path: Path, bad: tuple[int, ...], share: float
) -> None:
    logs = folder(tmp_path, 8)
    for a, b in combinations(range(1, 9), 2):
        rate = 24000 * (share if a in bad or b in bad else 1)
        (logs / f"bw_n{a}_n{b}.log").write_text(OSU.format(rate - a - b))
    verdict = judge(tmp_path, logs)
    names = {(finding.name, finding.kind, finding.direction) for finding in verdict.blamed}

    assert verdict.verdict == "FAULTY"
    assert names == {(f"n{host}", "BAD", "") for host in bad}
    snapshot(verdict.blamed[0].confirm)


def test_a_matrix_with_both_directions_names_the_direction(tmp_path: Path) -> None:
    """MpiGraph's table, with holes."""
    names = [f"n{host}:{host}" for host in range(8)]
    rows = [
        [(0.0 if a == b else 4000.0 if b == 3 else 11000.0 + a) for b in range(8)] for a in range(8)
    ]
    table = "\n".join(
        f"{name} to\t" + "\t".join(f"{value:.3f}" for value in row) + "\t"
        for name, row in zip(names, rows, strict=True)
    )
    header = "\t".join(names)
    (tmp_path / "mpigraph.out").write_text(
        f"START mpiGraph v1.5\nMsgSize\t65536\n\nSend max\t1\n\nSend\t{header}\t\n{table}\n\n"
        f"Recv\t{header}\t\nn0:0 from\t0.000\t1.0\t\n"
    )
    verdict = judge(tmp_path, tmp_path / "mpigraph.out")

    assert verdict.reference == pytest.approx(11005 * 2**20, rel=1e-3)
    assert [(b.part, b.direction) for b in verdict.blamed] == [("host:3", "rx")]


def test_a_slow_fleet_is_low_against_its_limit(tmp_path: Path) -> None:
    verdict = judge(tmp_path, folder(tmp_path, rate=10.0), limit=125e6)

    assert verdict.verdict == "LOW"
    assert not any("limit" in text for text in verdict.assumptions)


def test_a_log_of_another_tool_in_between_is_left_out(tmp_path: Path) -> None:
    logs = folder(tmp_path)
    (logs / "bw_n2_n3.log").write_bytes((TOOLS / "iperf3.text.txt").read_bytes())
    (logs / "README.md").write_text("notes\n")
    run = import_pairs([str(logs)], tmp_path, PairLogOptions())
    verdict = judge_fleet(run)

    assert verdict.verdict == "HEALTHY"
    assert [pair.partition(":")[0] for pair in verdict.missing] == ["n2 and n3"]
    kinds = [note.kind for note in run.record.notes if isinstance(note, Note)]
    assert kinds.count("left_out") == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The log is empty"),
        (OSU.format(0), "the log has no bandwidth at 4 MiB"),
        (OSU.format(-5), "-5.000 MB/s is no bandwidth"),
        (
            OSU.format(24e9),
            "2.400e+07 GB/s is more than 1000 times the median of all pairs: not believed",
        ),
    ],
)
def test_a_pair_without_a_believable_value_is_missing(
    tmp_path: Path, text: str, reason: str
) -> None:
    logs = folder(tmp_path)
    (logs / "bw_n2_n3.log").write_text(text)
    verdict = judge(tmp_path, logs)

    assert verdict.missing == (f"n2 and n3: {reason}",)
    assert (verdict.verdict, verdict.blamed) == ("HEALTHY", ())


def test_all_pairs_failed(snapshot: Snapshot, tmp_path: Path) -> None:
    logs = folder(tmp_path)
    for file in logs.iterdir():
        file.write_text("connection refused\n")
    verdict = judge(tmp_path, logs)

    snapshot(verdict.answer)
    assert {finding.kind for finding in verdict.observations} == {"UNTESTED"}
    assert verdict.blamed == ()


def test_two_hosts_cannot_be_compared(snapshot: Snapshot, tmp_path: Path) -> None:
    snapshot(judge(tmp_path, folder(tmp_path, 2)).answer)


MATRIX = "GB/s,a,b,c\na,-,10,10\nb,10,-,{0}\nc,10,,-\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MATRIX.format("-10"), "Line 3 has '-10', which cannot be a rate"),
        (MATRIX.format("fast"), "Line 3 has 'fast'"),
        (MATRIX.format("10").replace("c", "a"), "names the host 'a' twice"),
        (MATRIX.format("10").replace("GB/s", "bw"), "first word of the matrix is 'bw'"),
        ("a b\na 0 1\nb 1 0\n", "first word of the matrix is ''"),
        ("GB/s,a\na,-\n", "The matrix has one host, a"),
        (MATRIX.format("10").replace("\nc,", "\nd,"), "The host 'd' has a row in the matrix"),
        (MATRIX.format("10").replace("c,10,,-\n", ""), "The host 'c' has a column in the matrix"),
        (MATRIX.format("10") + "c,10,,-\n", "names the host 'c' twice"),
        ("host_a,host_b,GB/s\na,a,3\n", "Line 2 does not name two hosts"),
        ("host_a,host_b,speed\na,b,3\n", "the header of the third column is 'speed'"),
        ("host_a,host_b,us\na,b,3\n", "The table has a latency, and no bandwidth."),
        ("some notes\n", "None of these files is a log of a pair"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises((ParseError, SpecError), match=message.replace("(", r"\(")):
        judge(tmp_path, tmp_path / "table.csv")
    assert not list((tmp_path / "runs").glob("*/*"))


def test_a_matrix_may_have_holes(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(MATRIX.format("nan"))
    verdict = judge(tmp_path, tmp_path / "table.csv")

    assert [re.findall(r"\w+", pair)[:3] for pair in verdict.missing] == [
        ["b", "and", "c"],
        ["c", "and", "b"],
    ]
    assert verdict.verdict == "HEALTHY"


@pytest.mark.parametrize(
    ("text", "message"),
    [("n1 n2 n3\nn4 n5 n9\n", "a host 'n9'"), ("n1 n2\nn1 n3\n", "the host 'n1' twice")],
)
def test_groups_with_unknown_or_repeated_hosts_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        judge(tmp_path, folder(tmp_path), grouping=lambda machines: read_groups(text, machines))


def test_hosts_in_names_that_have_several_meanings_are_asked_for(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    logs = folder(tmp_path, 3)
    for file in sorted(logs.iterdir()):
        file.rename(file.with_name(file.name.replace("bw_n1_n2", "alpha-beta")))
    with snapshot.raises(SpecError):
        judge(tmp_path, logs)
    with snapshot.raises(SpecError):
        judge(tmp_path, logs, pattern="bw_{a}.log")
    (logs / "alpha-beta.log").rename(logs / "bw_alpha_beta.log")

    assert judge(tmp_path, logs, pattern="bw_{a}_{b}.log").tests == 3


@pytest.mark.parametrize("metric", ["bandwidth", "latency"])
def test_a_pattern_and_a_folder_name_files(
    tmp_path: Path, metric: PairMetric, snapshot: Snapshot
) -> None:
    words = f"{LOGS}/*cloud32.out"
    assert judge(tmp_path, words, metric=metric).tests == 28
    with snapshot.raises(SpecError):
        judge(tmp_path, f"{tmp_path}/*.none")


def topology(tmp_path: Path, far: str) -> Path:
    """Write what `nvidia-smi topo -m` prints of six GPUs, of which the fourth has other paths."""
    paths = [
        ["X" if a == b else far if 3 in (a, b) else "NODE" for b in range(6)] for a in range(6)
    ]
    head = "\t" + "\t".join(f"GPU{b}" for b in range(6)) + "\tCPU Affinity\tNUMA Affinity\n"
    rows = "".join(f"GPU{a}\t" + "\t".join(row) + "\t0-63\t0\n" for a, row in enumerate(paths))
    file = tmp_path / "topo.txt"
    file.write_text(head + rows)
    return file


@pytest.mark.parametrize(
    ("far", "word", "blamed"), [("SYS", "HEALTHY", []), ("NODE", "FAULTY", [("gpu:3", "BAD")])]
)
def test_a_gpu_is_compared_within_its_class(
    tmp_path: Path, far: str, word: str, blamed: list[tuple[str, str]]
) -> None:
    """A real matrix, in which GPU3 gives 51 GB/s and the others 56: is it on another socket?"""
    verdict = judge(tmp_path, LOGS / "turin_6gpu.txt", topology(tmp_path, far))

    assert verdict.verdict == word
    assert [(finding.part, finding.kind) for finding in verdict.blamed] == blamed


def test_a_gpu_matrix_without_its_topology_blames_nobody(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    verdict = judge(tmp_path, LOGS / "turin_6gpu.txt")

    assert (verdict.verdict, verdict.blamed) == ("UNDECIDED", ())
    assert verdict.undecided[0].startswith("gpu:3: ")
    with snapshot.raises(SpecError):
        judge(tmp_path, LOGS / "turin_6gpu.txt", TOOLS / "p2p_matrix.full.txt")


def test_a_host_with_two_names_is_one(snapshot: Snapshot, tmp_path: Path) -> None:
    """`n1` in one line and `n1.site.org` in another: four hosts, and six pairs of them."""
    table = tmp_path / "pairs.csv"
    hosts = ("n1", "n2", "n3", "n4")
    rows = [f"{a},{b}.site.org,20" for index, a in enumerate(hosts) for b in hosts[index + 1 :]]
    table.write_text("\n".join(["host_a,host_b,GB/s", *rows, "n1,n1.site.org,90", ""]))
    run = import_pairs([str(table)], tmp_path / "runs", PairLogOptions())

    assert [m.name for m in run.record.machines] == [f"{n}.site.org" for n in hosts]
    assert judge_fleet(run).tests == 6
    snapshot(map(note_words, run.record.notes))
    assert read_groups("n1 n3.site.org\nn2", run.record.machines) == (0, 1, 0, 5)
    with snapshot.raises(SpecError):
        read_groups("n1.other.org n2", run.record.machines)
    with pytest.raises(SpecError, match=r"'n1\.site\.org'"):
        read_groups("n1 n1.site.org", run.record.machines)
