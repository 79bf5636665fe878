"""nccl-tests: which bandwidth is which, columns that come and go, and what went wrong."""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import LOGS

OLD = (LOGS / "nccl_tests.old.txt").read_text()
NEW = (LOGS / "nccl_tests.new.txt").read_text()


def values(text: str, metric: str, size: int = 2097152) -> dict[object, tuple[float, ...]]:
    return {
        m.params["place"]: m.values
        for result in read([text.encode()]).results
        for m in result.measurements
        if m.metric == metric and m.params["size"] == size
    }


@pytest.mark.parametrize(
    ("fragment", "replacement", "says"),
    [
        (
            "Out of bounds values : 0 OK",
            "Out of bounds values : 7 FAILED",
            "Out of bounds values : 7",
        ),
        ("45.00       0    35.54", "45.00       3    35.54", "2097152 B, out of place: 3 values"),
        (
            "# Avg bus",
            "node-a: Test NCCL failure common.cu:954 'unhandled system error'\n# Avg bus",
            "unhandled",
        ),
    ],
)
def test_a_failure_is_one(fragment: str, replacement: str, says: str) -> None:
    result, *signs = read([NEW.replace(fragment, replacement).encode()]).results

    assert says in result.failures[0]
    assert {sign.format for sign in signs} <= {"symptoms"}


def test_a_test_without_a_row_is_a_failure() -> None:
    assert read([NEW[: NEW.index("     1048576")].encode()]).results[0].failures


def test_a_row_that_contradicts_itself_is_not_used() -> None:
    """Size over time is not the bandwidth: two lines were torn into one."""
    text = NEW.replace("34.95   60.00", "34.95   90.00")
    reading = read([text.encode()])

    assert reading.unread == 1
    assert reading.examples[0].text.startswith("2097152")
    assert values(text, "busbw") == {}


def test_lines_of_nccl_between_rows_and_a_lost_hash() -> None:
    text = NEW.replace("#", " ").replace("     2097152", "a:1:2 [0] NCCL INFO x\n     2097152")

    assert values(text, "busbw")["out"] == (45e9,)


def test_two_tests_in_one_log_are_two_results() -> None:
    assert [result.title for result in read([(NEW + OLD).encode()]).results] == [
        "all_gather_perf",
        "nccl-tests",
    ]
