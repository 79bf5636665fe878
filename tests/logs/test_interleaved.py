"""Two logs whose lines are mixed: no row is read as that of the other, and what is lost is said."""

import random
from itertools import combinations

import pytest

from cluster.core.errors import ParseError
from cluster.logs.reader import read
from tests.conftest import tries

SIZES = [2**n for n in range(23)]
OSU_RATE = "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n" + "".join(
    f"{size:<10} {size * 1.5 + 0.25:>20.2f}\n" for size in SIZES
)
OSU_TIME = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n" + "".join(
    f"{size:<10} {size / 7 + 1.13:>20.2f}\n" for size in SIZES
)
IMB = (
    "# Intel(R) MPI Benchmarks 2021.3, MPI-1 part\n# Benchmarking Allreduce\n# #processes = 4\n"
    "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
) + "".join(
    f"{size} 1000 {size / 9 + 1:.2f} {size / 9 + 3:.2f} {size / 9 + 2:.2f}\n" for size in SIZES
)
CUDA = (
    "[CUDA Bandwidth Test] - Starting...\n Host to Device Bandwidth, 1 Device(s)\n PINNED Memory "
    "Transfers\n   Transfer Size (Bytes)        Bandwidth(MB/s)\n"
) + "".join(f"   {size}               {size / 300 + 5:.1f}\n" for size in SIZES)

# Tables of one to three rows: no two of them have rows of the same columns and decimals.
SMALL = {
    "osu": "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n1  1.93\n4194304  386.86\n",
    "cuda": "".join(CUDA.splitlines(keepends=True)[:5]) + "   33554432               8267.2\n",
    "nvbandwidth": "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) <- GPU(column) "
    "bandwidth (GB/s)\n           0         1\n 0       N/A    276.07\n 1    276.19       N/A\n",
    "p2p": "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n"
    "     0 740.15   9.91\n     1   9.95 741.55\n",
}


def nccl(least: int, rate: float) -> str:
    rows = []
    for n in range(least, 28):
        time = 2**n / rate / 1e3 + 20
        rates = f"{2**n / time / 1e3:.2f} {2**n / time / 1e3 * 1.5:.2f}"
        half = f"{time:.2f} {rates} 0"
        rows.append(f"{2**n} {2**n // 4} float sum -1 {half} {half}\n")
    return (
        f"# nThread 1 nGpus 4 minBytes {2**least} maxBytes 134217728 step: 2(factor)\n"
        "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
        + "".join(rows)
        + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 18.35\n"
    )


LOGS = {"rate": OSU_RATE, "time": OSU_TIME, "imb": IMB, "cuda": CUDA, "nccl": nccl(10, 40)}
LOGS["other nccl"] = nccl(12, 90)


def series(text: str) -> list[tuple[object, tuple[float, ...]]]:
    try:
        results = read([text.encode()]).results
    except ParseError:
        return []
    return [((r.format, m.key), m.values) for r in results for m in r.measurements]


def mix(a: str, b: str, chance: random.Random) -> str:
    lines = (
        [[a, 0] for a in a.splitlines(keepends=True)],
        [[b, 0] for b in b.splitlines(keepends=True)],
    )
    order = [0] * len(lines[0]) + [1] * len(lines[1])
    chance.shuffle(order)
    rest = [iter(part) for part in lines]
    return "".join(str(next(rest[side])[0]) for side in order)


@pytest.mark.parametrize("pair", list(combinations(LOGS, 2)), ids=" and ".join)
def test_no_row_is_read_as_that_of_the_other(pair: tuple[str, str]) -> None:
    """Each series that is read of the mixture is one of the two logs; else a failure says why."""
    first, second = (LOGS[name] for name in pair)
    expected = [*series(first), *series(second)]
    chance = random.Random(repr(pair))
    for _ in range(3):
        text = mix(first, second, chance)
        rows = series(text)

        assert [row for row in rows if row not in expected] == []
        if len(rows) < len(expected):
            reading = read([text.encode()])
            assert reading.unread or any(result.failures for result in reading.results)


@pytest.mark.parametrize("pair", list(combinations(SMALL, 2)), ids=" and ".join)
def test_no_row_of_a_small_table_is_read_as_that_of_the_other(pair: tuple[str, str]) -> None:
    first, second = (SMALL[name] for name in pair)
    expected = [*series(first), *series(second)]
    chance = random.Random(repr(pair))
    for _ in range(tries(40)):
        text = mix(first, second, chance)

        assert [row for row in series(text) if row not in expected] == [], text


def test_logs_one_after_another_are_not_mixed() -> None:
    text = "".join(LOGS.values())

    assert len(series(text)) == sum(len(series(log)) for log in LOGS.values())
    assert not any(result.failures for result in read([text.encode()]).results)


def test_rows_that_nobody_owns_are_counted() -> None:
    title = OSU_RATE.splitlines(keepends=True)
    (first, second) = read(["".join((*title[:2], OSU_TIME)).encode()]).results

    assert first.failures
    assert second.failures[0].startswith("23 ")
    assert not second.measurements
