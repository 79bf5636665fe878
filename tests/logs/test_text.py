"""What launchers, containers and loggers put before each line."""

from collections.abc import Sequence

import pytest

from cluster.core.errors import ParseError
from cluster.core.model.results.measurements import Measurement
from cluster.logs.reader import read
from cluster.logs.text import PORTION, Lines, split_log
from tests.logs.samples import LOGS

SAMPLES = (
    *("osu.latency", "iperf3.text", "iperf2.client", "imb.new", "horovod.synthetic"),
    *("nccl_tests.old", "p2p_matrix.full", "topology.nics"),
)
BEFORE = (
    *("node001: ", "0: ", "[0] ", "osu-1  | ", "[pod/osu-launcher-x7/osu] ", "[node1:0]: "),
    *("Nov 21 10:00:00 ", "Nov 21 10:00:00 node1 osu[123]: ", "Sat Nov 21 10:00:00 2026 "),
    *(
        "[10:00:00] ",
        "2026-01-01T10:00:00.0000000Z ",
        "2026-01-01 10:00:00 | ",
        "INFO: ",
        "[INFO] ",
    ),
    *("(worker pid=12, ip=10.0.0.1) ", "[NID 00123] ", "[1,mpirank:0,algo-1]<stdout>:", "mine:  "),
    *("[STDOUT] ", "[rank 1] ", "node-1.example: ", "03:04:05 ", "INFO:root:"),
    *("2026-01-02 03:04:05,123 - INFO - ", "Jan  2 03:04:05 node01 job[4711]: "),
    *("[pod/w-0/main] 2026-01-02T03:04:05.123456789Z ", "(head, rank=0, pid=4711) "),
)


def clean(text: str) -> str:
    return "".join(part.text for part in split_log([text.encode()]))


def read_results(text: str) -> list[tuple[Sequence[Measurement], object, object]]:
    return [(r.measurements, r.detail, r.failures) for r in read([text.encode()]).results]


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("sample", SAMPLES)
def test_what_stands_before_each_line_does_not_matter(sample: str, before: str) -> None:
    text = (LOGS / f"{sample}.txt").read_text()
    log = "".join(f"{before}{line}\n" for line in text.splitlines())

    assert read_results(log) == read_results(text)


def test_the_first_column_of_a_table_is_no_name() -> None:
    rows = "".join(f"{gpus} | {gpus * 100} images/sec\n" for gpus in (1, 2, 4, 8, 16))
    text = f"GPUs | Throughput\n--- | ---\n{rows}"

    assert sum(len(series) for series, *_ in read_results(text)) == 5


def test_lines_that_only_separate_others_are_not_missed() -> None:
    text = "#-----------\n=====\nThroughput: 10.5 images/s\n------------ #\nand prose\n"

    assert read([text.encode()]).unread == 1


def test_what_lines_say_with_a_colon_is_no_name() -> None:
    with pytest.raises(ParseError):
        read([b"GPU0: 1\nGPU1: 2\nGPU2: 3\n"])

    ((series, *_),) = read_results("Throughput: 10.5 images/s\n" * 3)
    assert len(series) == 1


def test_names_before_blank_lines_that_lost_their_space() -> None:
    text = (LOGS / "osu.latency.txt").read_text() + "\n"
    log = "".join(f"node001: {line}".rstrip() + "\n" for line in text.split("\n"))

    assert read_results(log) == read_results(text)


@pytest.mark.parametrize("sign", ["#", "é", "数", "\N{BAR CHART}"])
def test_a_log_is_processed_in_pieces_of_memory(sign: str) -> None:
    """Also where a sign makes each character of a text take four bytes."""
    row = f"| {sign} Stream | netperf | 64 | 3466.357063 (Mb/s) |\n"
    log = (row * 50_000).encode()
    pieces = [piece for piece in split_log([log]) if isinstance(piece, Lines)]

    assert "".join(piece.text for piece in pieces) == row * 50_000
    assert max(piece.text.__sizeof__() for piece in pieces) < 2.2 * PORTION
    assert len(pieces) > 1


def test_a_log_that_a_page_quotes_has_prefixes_of_its_own() -> None:
    prose = "".join(f"This is sentence {n} of a long page.\n" for n in "abcdefghijklmnop")
    page = f"{prose}```\n 0: one\n 0: two\n```\nand\n```bash\n 1: three\n```\n0: last\n"
    lines = clean(page).splitlines()

    assert lines[16:] == ["```", "one", "two", "```", "and", "```bash", "three", "```", "0: last"]


def test_the_name_of_a_pod_before_a_launchers_tag() -> None:
    log = "".join(f"nccl-worker-0 launcher [1,{n}]<stdout>:{n} 2\n" for n in range(3))

    assert clean(log) == "0 2\n1 2\n2 2\n"
    assert clean("1024 256 float [1,0]<stdout>: x\n") == "1024 256 float [1,0]<stdout>: x\n"
