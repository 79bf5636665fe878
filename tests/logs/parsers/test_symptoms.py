"""Signs of known problems: which lines are one, and how many of a kind are kept."""

from cluster.core.model.logs import Symptoms
from cluster.logs.reader import read


def test_a_line_that_differs_only_in_a_digit_hides_none() -> None:
    """`Read -2` is no sign of a refused copy; `Read -1` is."""
    lines = ["Read -2, expected 8, errno = 1", "Read -1, expected 8, errno = 1"]
    text = "kernel.yama.ptrace_scope = 1\n" + "".join(f"{line}\n" for line in lines)
    (result,) = read([text.encode()]).results

    assert isinstance(result.detail, Symptoms)
    assert [s.text for s in result.detail.found] == ["kernel.yama.ptrace_scope = 1", lines[1]]


def test_three_of_a_kind_are_kept() -> None:
    text = "".join(f"[node-1:{rank}]  Read -1, expected 8, errno = 1\n" for rank in range(9))
    (result,) = read([text.encode()]).results

    assert isinstance(result.detail, Symptoms)
    assert [s.text for s in result.detail.found] == [
        f"[node-1:{rank}] Read -1, expected 8, errno = 1" for rank in range(3)
    ]
