"""The smaller formats, a few lines each; and what several of them share."""

from itertools import zip_longest

import pytest

from cluster.core.model.logs import PeerAccess, Topology
from cluster.core.model.notes import Note
from cluster.logs.parsers import number
from cluster.logs.reader import read
from tests.logs.samples import LOGS, kinds, results, values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25.21", 25.21),
        ("1e-06", 1e-6),
        ("25,21", 25.21),
        ("1,234.5", 1234.5),
        ("1,234", None),  # a thousand, or a little more than one
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("1_000", None),
        ("", None),
    ],
)
def test_numbers_of_any_locale(text: str, value: float | None) -> None:
    assert number(text) == value


def test_topology_with_nics_and_their_legend() -> None:
    (result,) = results("topology.nics")
    found = result.detail

    assert isinstance(found, Topology)
    assert found.path("GPU0", "GPU1") == found.path("GPU1", "GPU0") == "NV2"
    assert found.path("GPU0", "NIC0") == "PIX"
    assert found.path("GPU0", "GPU9") == "?"
    assert [(d.name, d.cpus, d.numa, d.model) for d in found.devices][3:5] == [
        ("GPU3", "20-39,60-79", "1", ""),
        ("NIC0", "", "", "mlx5_0"),
    ]
    assert [d.is_gpu for d in found.devices] == [True] * 4 + [False] * 2


def test_a_pasted_topology_whose_spaces_collapsed_and_whose_last_columns_are_lost() -> None:
    text = "GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X NV2 SYS 0-9\nGPU1 NV2 X PHB 0-9\nGPU2 SYS\n"
    (result,) = read([text.encode()]).results

    assert isinstance(result.detail, Topology)
    assert result.detail.path("GPU1", "GPU2") == "PHB"
    assert result.detail.path("GPU2", "GPU1") == "?"


def test_which_gpus_may_use_which_others_memory() -> None:
    (result,) = results("topology.peers")
    (matrices,) = results("p2p_matrix.full")

    assert isinstance(result.detail, PeerAccess)
    assert result.detail.status[2] == ("CNS", "CNS", "X")
    assert isinstance(matrices.detail, PeerAccess)
    assert matrices.detail.status == (("X", "OK"), ("OK", "X"))


def test_p2p_matrices() -> None:
    (result,) = results("p2p_matrix.full")

    assert values(result, "p2p_bandwidth", p2p="off", row=0) == [9.91e9]
    assert values(result, "p2p_bandwidth", p2p="on", row=1, column=0) == [48.36e9]
    assert values(result, "p2p_bidirectional", row=0) == [96.49e9]
    assert values(result, "device_copy", ways=2, row=0) == [1784.87e9]  # no link
    assert values(result, "p2p_latency", p2p="off", clock="GPU", row=0) == pytest.approx([17.52e-6])
    assert values(result, "p2p_latency", p2p="on", clock="CPU", row=1) == pytest.approx([3.02e-6])


def test_megabytes_of_old_and_gigabytes_of_new_bandwidth_tests() -> None:
    (new,) = results("bandwidth_test.gb")
    old, csv = results("bandwidth_test.mb")

    assert values(new, "host_to_device", memory="pinned") == [12.3e9]
    assert values(old, "device_to_host", size=1048576, memory="pageable") == [5000.5 * 2**20]
    assert values(csv, "host_to_device") == [8500 * 2**20]
    assert values(csv, "device_to_device") == [155000 * 2**20]


def test_a_bandwidth_test_that_failed() -> None:
    text = (LOGS / "bandwidth_test.gb.txt").read_text().replace("PASS", "FAIL")

    assert read([text.encode()]).results[0].failures == ("Result = FAIL",)


def test_nvbandwidth() -> None:
    (text,), (json,) = results("nvbandwidth.text"), results("nvbandwidth.json")
    test = "device_to_device_memcpy_read_ce"

    assert values(text, "peer_copy_bandwidth", test=test) == [396.11e9, 395.90e9]  # N/A is no value
    assert values(text, "copy_bandwidth_sum", test=test) == [792.01e9]
    assert values(text, "access_latency", column=1) == pytest.approx([780.11e-9])
    assert values(json, "peer_copy_bandwidth", row=0, column=1) == [396.1e9]
    assert values(json, "access_latency") == pytest.approx([772.5e-9])


def test_imb_says_by_its_own_rows_what_its_megabyte_is() -> None:
    (new,), (old,) = results("imb.new"), results("imb.old")

    assert values(new, "bandwidth", size=1048576) == [10485.76e6]
    assert values(old, "bandwidth", size=1048576) == [10000 * 2**20]
    assert values(new, "latency", size=1024) == [2e-6]
    assert values(new, "bidirectional", test="Sendrecv") == [10485.76e6]
    assert values(new, "call_time", test="Allreduce", processes=4) == pytest.approx([4.3e-6])
    assert values(new, "call_time_max", test="Barrier") == pytest.approx([3.3e-6])


def test_iperf2_gives_the_whole_test_and_not_its_intervals() -> None:
    (client,), (server,), (csv,) = (results(f"iperf2.{n}") for n in ("client", "server", "csv"))

    assert values(client, "sent", streams=2) == [7.55e9 / 8]
    assert values(server, "received") == [7.65e9 / 8]
    assert values(csv, "rate", stream="sum") == [7.6e9 / 8]


def test_iperf2_that_was_stopped_has_no_total() -> None:
    text = (LOGS / "iperf2.client.txt").read_text()
    (result,) = read([text[: text.index("[  3]  0.0-10.0")].encode()]).results

    assert [m.metric for m in result.measurements] == ["interval"]
    assert "only_intervals" in kinds(result)


def test_iperf2_that_could_not_connect() -> None:
    text = "Client connecting to 10.0.0.9, TCP port 5001\nconnect failed: Connection refused\n"

    assert "connect failed" in read([text.encode()]).results[0].failures[0]


def test_founding_lines_whose_time_and_rate_disagree_are_not_used() -> None:
    (result,) = results("mpi_test.two_ranks")
    bad = read(
        [
            (
                b"Process 0 transferred 100 MB in 20.0 ms (5000.0 MB/sec)\n"
                b"Process 0 transferred 100 MB in 20.0 ms (500.0 MB/sec)\n"
            )
        ]
    )

    assert [m.rank for m in result.measurements] == [0, 1]
    assert result.measurements[1].values == pytest.approx((0.025, 0.0244))
    assert result.measurements[1].bytes == 100_000_000
    assert bad.unread == 1


def test_mlbench_keeps_its_warm_up_apart() -> None:
    (result,) = results("mlbench.p2p")

    assert values(result, "first_bandwidth") == [10.5 * 2**20]
    assert values(result, "oneway_bandwidth", size=40_000_000) == [
        rate * 2**20 for rate in (900.25, 931.5, 930.0)
    ]


def test_global_rates_of_several_ranks_are_not_summed() -> None:
    (result,) = results("tf_cnn.two_ranks")

    assert values(result, "total_rate") == [426.20, 426.24]
    assert values(result, "step_rate") == [212.1, 213.2]
    assert Note("several_totals", (2,)) in result.notes
    assert result.definitions[1].aggregation == "all ranks"


@pytest.mark.parametrize(
    ("steps", "totals", "doubt"),
    [
        (["97.4"], ["97.40"], None),  # ROCm, ResNet-50 on one GPU
        (["82.1"], ["82.40"], None),  # the total also has the time between the steps
        (["213.2"], ["426.20", "426.24"], None),  # two processes, one of which prints its steps
        (["211.0", "215.2"], ["426.20"], None),
        (["213.2"], ["310.00"], Note("other_total_each", (310.0, 213.2))),
        (["213.2"], ["100.00"], Note("other_total_each", (100.0, 213.2))),
        (["211.0", "215.2"], ["213.00"], Note("other_total", (213.0, 426.2))),
        (["213.2"], ["426.20", "99.00"], None),  # of two runs
        (["213.2"], [], None),
    ],
)
def test_a_total_is_held_against_the_last_step(
    steps: list[str], totals: list[str], doubt: Note | None
) -> None:
    rows = "".join(
        f"{step}\timages/sec: {rate} +/- 0.1 (jitter = 0.4)\t7.9\n"
        for step in (10, 20)
        for rate in (["180.0"] * len(steps) if step == 10 else steps)
    )
    ends = "".join(f"total images/sec: {total}\n" for total in totals)
    (result,) = read([f"Step\tImg/sec\ttotal_loss\n{rows}{ends}".encode()]).results
    doubts = [note for note in result.notes if note.kind in ("other_total", "other_total_each")]

    assert doubts == ([doubt] if doubt else [])


def test_horovod_tells_one_gpu_from_all() -> None:
    (result,) = results("horovod.synthetic")
    text = (LOGS / "horovod.synthetic.txt").read_text()
    fork = text.replace("226.3 img/sec per GPU", "905.2 img/sec").replace(
        "227.1 img/sec per GPU", "908.4 img/sec"
    )

    assert values(result, "iteration_rate") == [226.3, 227.1]
    assert values(result, "total_rate", devices=4) == [906.8]
    (forked,) = read([fork.encode()]).results
    assert values(forked, "iteration_total_rate") == [905.2, 908.4]


def test_throughput_of_any_program() -> None:
    (result,) = results("throughput.several")

    assert values(result, "images_rate") == [100702.49, 101486.84, 1965.668]
    assert values(result, "sentences_rate") == [52.31]
    assert values(result, "training_rate") == [6638.003508038038]


def test_tables_keep_what_was_printed_and_mark_what_was_commented_out() -> None:
    scaling, placement = results("tables.scaling")

    assert scaling.title == "Synthetic data"
    assert values(scaling, "processing_rate", gpus=2) == [424]
    assert values(scaling, "printed_efficiency", gpus=2) == [95]
    assert values(scaling, "processing_rate", commented=1) == [796]
    assert values(placement, "processing_rate", remark="batch-size=8192") == [166697]


def test_the_last_words_of_a_launcher_make_a_failure_of_any_log() -> None:
    text = (LOGS / "osu.latency.txt").read_text() + (LOGS / "job.killed.txt").read_text()
    osu, job, *_ = read([text.encode()]).results

    assert osu.measurements
    assert "signal 9" in job.failures[0]


def test_fences_of_a_document_keep_logs_apart() -> None:
    one = "```\nh:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via {}\n```\n"
    text = one.format("P2P/IPC") + "Now without P2P:\n" + one.format("SHM/direct/direct")
    logs = [result.detail for result in read([text.encode()]).results]

    assert [len(getattr(log, "edges", ())) for log in logs] == [1, 1]


def test_utf16_as_windows_writes_it() -> None:
    data = (LOGS / "osu.latency.txt").read_text().encode("utf-16")

    assert read([data]).results == results("osu.latency")


def test_rows_of_two_tables_that_are_mixed_are_nobodys() -> None:
    """Line by line, without a prefix: a row of two numbers may be of either."""
    logs = [(LOGS / f"{name}.txt").read_text() for name in ("osu.device", "bandwidth_test.mb")]
    pairs = zip_longest(*(log.splitlines() for log in logs), fillvalue="")
    found = read(["\n".join(line for pair in pairs for line in (*pair, "")).encode()]).results

    assert {result.format for result in found} == {"osu", "bandwidth_test"}
    assert not any(result.measurements for result in found)
    assert all("mixed" in result.failures[-1] for result in found)


def test_tables_that_follow_one_another_are_all_read() -> None:
    names = ["osu.device", "bandwidth_test.mb", "imb.new", "p2p_matrix.full", "iperf2.client"]
    one_by_one = [result for name in names for result in results(name)]
    text = "".join((LOGS / f"{name}.txt").read_text() for name in names)

    assert [r.measurements for r in read([text.encode()]).results] == [
        r.measurements for r in one_by_one
    ]
