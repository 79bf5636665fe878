"""The error tree, and what its messages say."""

import inspect
import re

import pytest

import cluster
from cluster.core import errors
from cluster.core.errors import (
    ClusterError,
    HostErrors,
    JobError,
    ParseError,
    ShellError,
    SpecError,
    tail,
)
from tests.snapshots import Snapshot

CLASSES = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, ClusterError)
}


def read_drawing() -> dict[str, str]:
    """Read the parent of each class from the drawing in the module's docstring."""
    parents: dict[str, str] = {}
    ancestors = ["Exception"]
    for line in (errors.__doc__ or "").splitlines()[1:]:
        match = re.match(r"([│├└─ ]*)([A-Z]\w+)", line)
        if match:
            depth = len(match[1]) // 4
            del ancestors[depth + 1 :]
            parents[match[2]] = ancestors[-1]
            ancestors.append(match[2])
    return parents


def test_the_docstring_draws_exactly_the_classes_there_are() -> None:
    bases = {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}  # its own tree

    assert read_drawing() == bases


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_is_public_and_documented(name: str) -> None:
    assert getattr(cluster, name) is CLASSES[name]
    assert name in cluster.__all__
    assert CLASSES[name].__doc__


@pytest.mark.parametrize(
    ("means", "remedy", "text"),
    [
        ("", "", "What."),
        ("Means.", "", "What.\nMeans."),
        ("", "Do.", "What.\nDo."),
        ("Means.", "Do.", "What.\nMeans.\nDo."),
    ],
)
@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"HostErrors", "ParseError"}))
def test_a_message_has_a_line_for_each_part(name: str, means: str, remedy: str, text: str) -> None:
    error = CLASSES[name]("What.", means=means, remedy=remedy)

    assert str(error) == text
    assert isinstance(error, ClusterError)
    assert (error.what, error.means, error.remedy) == ("What.", means, remedy)


def test_a_job_error_shows_tails_between_what_and_what_to_do(snapshot: Snapshot) -> None:
    error = JobError("What.", means="Means.", remedy="Do.", stdout="a\nb\n", stderr="c\n")

    snapshot(str(error))


def test_a_job_error_says_nothing_about_a_silent_stream(snapshot: Snapshot) -> None:
    snapshot(str(JobError("What.", stderr="c")))


@pytest.mark.parametrize("lines", [1, 39, 40, 41, 1000])
def test_the_tails_of_a_job_error_are_its_last_40_lines(lines: int) -> None:
    text = "".join(f"line {number}\n" for number in range(lines))
    expected = [f"line {number}" for number in range(max(0, lines - 40), lines)]
    error = JobError("What.", stdout=text, stderr=text)

    assert error.stdout.split("\n") == expected
    assert error.stderr.split("\n") == expected


@pytest.mark.parametrize(
    ("text", "lines", "last"),
    [
        ("", 2, ""),
        ("a", 2, "a"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc\n\n\n", 2, "b\nc"),
        ("a\n\nc\n", 2, "\nc"),
        ("a\nb\n\0", 2, "a\nb"),
    ],
)
def test_tail(text: str, lines: int, last: str) -> None:
    assert tail(text, lines) == last


def test_a_parse_error_keeps_the_line_and_shows_its_beginning(snapshot: Snapshot) -> None:
    line = "x" * 199 + "yz"
    error = ParseError("What.", line=line, remedy="Do.")

    assert error.line == line
    snapshot(str(error))


def test_a_parse_error_without_a_line_does_not_show_one() -> None:
    assert str(ParseError("What.")) == "What."


def test_a_line_with_control_characters_cannot_disturb_a_terminal() -> None:
    assert "\x1b" not in str(ParseError("What.", line="\x1b[2J"))


def test_failures_of_several_hosts_are_one_cluster_error_that_lists_them() -> None:
    failures = [ShellError("0.mpi.x: broke.", remedy="Mend it."), ClusterError("1.mpi.x: broke.")]

    with pytest.raises(ClusterError) as error:
        raise HostErrors("2 of 3 hosts failed", failures)

    assert isinstance(error.value, HostErrors)
    assert list(error.value.exceptions) == failures
    assert str(error.value).splitlines() == [
        "2 of 3 hosts failed.",
        "- 0.mpi.x: broke.",
        "Mend it.",
        "- 1.mpi.x: broke.",
    ]


def test_a_handler_of_one_kind_sees_the_failures_of_that_kind() -> None:
    messages = []
    try:
        raise HostErrors("2 hosts failed", [ShellError("a"), SpecError("b")])
    except* ShellError as broken:
        messages.append([error.args[0] for error in broken.exceptions])
    except* SpecError as refused:
        messages.append([error.args[0] for error in refused.exceptions])

    assert messages == [["a"], ["b"]]
