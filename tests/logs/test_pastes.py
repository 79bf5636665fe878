"""Two pastes in one page, before and after a change: no figure is made of both."""

from collections.abc import Sequence

import pytest

from cluster.core.model.logs import Parsed
from cluster.logs.reader import read
from tests.logs.samples import LOGS, values

REPEATED = (
    "bandwidth_test.gb",
    "imb.old",
    "mlc.two_sockets",
    "nccl_tests.old",
    "nvbandwidth.text",
    "p2p_matrix.full",
    "rocm_bandwidth.mi210",
    "rocm_bandwidth.old",
    "sockperf.round_trips",
)


@pytest.mark.parametrize("name", REPEATED)
def test_a_second_paste_without_its_first_lines_is_another_run(name: str) -> None:
    """People paste a table before and after a change: a mean of the two was never measured."""
    lines = (LOGS / f"{name}.txt").read_text().splitlines(keepends=True)
    most = _count_values(read(["".join(lines).encode()]).results)
    for missing in range(7):
        page = "".join([*lines, "and after the change:\n\n", *lines[missing:]])
        counts = _count_values(read([page.encode()]).results)
        assert all(n <= most.get(point, 1) for point, n in counts.items()), missing


def _count_values(results: Sequence[Parsed]) -> dict[object, int]:
    """Return the most values that any series of a point has."""
    counts: dict[object, int] = {}
    for result in results:
        for m in result.measurements:
            point = (m.metric, *m.params.items())
            counts[point] = max(counts.get(point, 0), len(m.values))
    return counts


NCCL_ROWS = (
    "  1073741824  268435456  float  sum  -1  {0}  {1}  {2}  0  {0}  {1}  {2}  0\n"
    "  2147483648  536870912  float  sum  -1  {3}  {1}  {2}  0  {3}  {1}  {2}  0\n"
)
NCCL_HEAD = (
    "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
)
SLOW = NCCL_ROWS.format("87654", "12.25", "22.97", "175308")
FAST = NCCL_ROWS.format("17654", "60.82", "114.0", "35308")


def test_two_tables_of_nccl_tests_below_their_columns_are_two() -> None:
    """As in issues with NCCL_ALGO=Ring, then Tree; 68.5 GB/s between the two was never measured."""
    page = f"{NCCL_HEAD}{SLOW}and with NCCL_ALGO=Tree:\n{NCCL_HEAD}{FAST}"
    slow, fast = read([page.encode()]).results
    paste = f"{NCCL_HEAD}{SLOW}# Out of bounds values : 0 OK\n# Avg bus bandwidth : 22.97\n{FAST}"

    assert values(slow, "busbw", place="out") == [22.97e9, 22.97e9]
    assert values(fast, "busbw", place="out") == [114.0e9, 114.0e9]
    assert [values(r, "busbw", place="in") for r in read([paste.encode()]).results] == [
        [22.97e9, 22.97e9],
        [114.0e9, 114.0e9],
    ]


def test_rows_of_two_tables_of_nccl_tests_by_turns_belong_to_none() -> None:
    slow, fast = SLOW.splitlines(keepends=True), FAST.splitlines(keepends=True)
    mixture = f"{NCCL_HEAD}{NCCL_HEAD}{slow[0]}{fast[0]}{slow[1]}{fast[1]}"
    (result,) = read([mixture.encode()]).results

    assert not result.measurements
    assert result.failures


def test_cycles_of_one_test_are_one_series() -> None:
    """`-N 2` prints the rows again, below the same columns."""
    (result,) = read([f"{NCCL_HEAD}{SLOW}{FAST}".encode()]).results

    assert values(result, "busbw", place="in", size=2**30) == [22.97e9, 114.0e9]
