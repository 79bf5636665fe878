"""Sizes, values and spans as people write and read them."""

import re

import pytest

from cluster.core.errors import SpecError
from cluster.core.text.units import (
    Sizes,
    format_point,
    format_seconds,
    format_size,
    format_tick,
    format_value,
    parse_seconds,
    parse_size,
)
from tests.snapshots import Snapshot


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("8", 8),
        ("8B", 8),
        ("007", 7),
        (" 64 KiB ", 65_536),
        ("1kB", 1_000),
        ("1KB", 1_000),
        ("1KiB", 1_024),
        ("1MB", 1_000_000),
        ("1MiB", 1_048_576),
        ("2GB", 2_000_000_000),
        ("2GiB", 2_147_483_648),
        ("1TB", 1_000_000_000_000),
        ("1TiB", 1_099_511_627_776),
        ("1.5MB", 1_500_000),
        ("0.5KiB", 512),
        ("4.0", 4),
        ("1024GiB", 1_099_511_627_776),
    ],
)
def test_parse_size(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "size"), [("1.001kB", 1_001), ("8.191kB", 8_191)])
def test_a_decimal_fraction_is_exact(text: str, size: int) -> None:
    """A size that is whole on paper is not refused because binary fractions are not."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", " ", "B", "-1", "+1", "1e3", "0x10", "8;rm", "8 8", "1.", ".5", "1,5", "8kb", "8PB", "8b"],
)
def test_what_is_not_a_size_is_quoted_with_examples_of_what_is(text: str) -> None:
    with pytest.raises(SpecError, match=re.escape(repr(text))) as error:
        parse_size(text)

    assert "64KiB" in error.value.remedy


@pytest.mark.parametrize("text", ["1.3B", "0.0001kB", "1.5"])
def test_part_of_a_byte_is_refused(snapshot: Snapshot, text: str) -> None:
    with snapshot.raises(SpecError):
        parse_size(text)


@pytest.mark.parametrize("text", ["0", "0MiB", "1099511627777", "1025GiB", "2TB", "9" * 400])
def test_a_size_out_of_range_is_refused_with_the_range(snapshot: Snapshot, text: str) -> None:
    with snapshot.raises(SpecError):
        parse_size(text)


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        ("8", (8,)),
        ("8:64", (8, 16, 32, 64)),
        ("8:63", (8, 16, 32)),
        ("3:12", (3, 6, 12)),
        ("8:8", (8,)),
        ("512KiB:2MiB", (524_288, 1_048_576, 2_097_152)),
        ("8,65536", (8, 65_536)),
        ("65536,8,8", (65_536, 8, 8)),
        ("1:4,1MB", (1, 2, 4, 1_000_000)),
        (8, (8,)),
        ([16, 8], (16, 8)),
        ((1, 2), (1, 2)),
        (range(1, 4), (1, 2, 3)),
        ([], ()),
    ],
)
def test_sizes(value: str | int | list[int], sizes: tuple[int, ...]) -> None:
    result = Sizes.parse(value)

    assert isinstance(result, Sizes)
    assert result == sizes


def test_the_whole_usual_range() -> None:
    assert Sizes.parse("8:64MiB") == tuple(2**k for k in range(3, 27))


def test_sizes_print_as_what_can_be_parsed() -> None:
    assert str(Sizes((8, 65_536))) == "8,65536"


def test_a_range_that_runs_backwards_is_turned_round_in_the_remedy(snapshot: Snapshot) -> None:
    with snapshot.raises(SpecError):
        Sizes.parse("64MiB:8")


@pytest.mark.parametrize("text", ["", "8,", ",8", ":8", "8:", "8:16:32", "8;16", "8..64"])
def test_half_a_list_or_range_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        Sizes.parse(text)


@pytest.mark.parametrize("value", [0, -1, True, [8, 0], [-8], [2**40 + 1], [False]])
def test_numbers_out_of_range_are_refused(value: int | list[int]) -> None:
    with pytest.raises(SpecError, match=r"1 B .* 1 TiB"):
        Sizes.parse(value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (8, "8 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (65_536, "64 KiB"),
        (65_537, "65537 B"),
        (1_000_000, "1 MB"),
        (100_000_000, "100 MB"),
        (1_048_576, "1 MiB"),
        (1_500_000_000, "1500 MB"),
        (8_000_000_000, "8 GB"),
        (2**30, "1 GiB"),
        (2**40, "1024 GiB"),
    ],
)
def test_format_size_is_exact(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.116e-6, "s", "1.116 µs"),
        (0.0231279, "s", "23.13 ms"),
        (2.0, "s", "2.000 s"),
        (1234.4, "s", "1234 s"),
        (1.5e-9, "s", "1.500 ns"),
        (1.5e-11, "s", "0.01500 ns"),
        (0.0, "s", "0.000 ns"),
        (-1.5e-3, "s", "-1.500 ms"),
        (4.3238e9, "B/s", "4.324 GB/s"),
        (4323.8e5, "B/s", "432.4 MB/s"),
        (1234.0, "B/s", "1.234 kB/s"),
        (12.0, "B/s", "12.00 B/s"),
        (0.0, "B/s", "0.000 B/s"),
        (3.14159, "GFLOP/s", "3.142 GFLOP/s"),
        (10_512.0, "images/s", "10,510 images/s"),
    ],
)
def test_format_value_gives_four_digits_and_a_prefix(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999.94e6, "B/s", "999.9 MB/s"),
        (999.96e6, "B/s", "1.000 GB/s"),
        (999.6e-9, "s", "999.6 ns"),
        (999.96e-9, "s", "1.000 µs"),
    ],
)
def test_the_prefix_changes_only_where_the_digits_would_say_1000(
    value: float, unit: str, text: str
) -> None:
    assert format_value(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"),
        (3.2, "3.2 s"),
        (59.94, "59.9 s"),
        (60.0, "1 min 0 s"),
        (312.4, "5 min 12 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7380.0, "2 h 3 min"),
    ],
)
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_no_span_is_shown_as_60_seconds() -> None:
    assert format_seconds(59.96) == "1 min 0 s"


def test_ticks_have_no_digits_that_say_nothing() -> None:
    assert format_tick(1e8, "B/s") == "100 MB/s"
    assert format_tick(4e5, "B") == "400 kB"
    assert format_tick(2.5e-6, "s") == "2.5 µs"


def test_format_point(snapshot: Snapshot) -> None:
    assert format_point({}) == ""
    snapshot(format_point({"size": 65536, "rank": 1, "load": 0.5}))
    assert format_point({"size": "all"}) == "size all"


@pytest.mark.parametrize("span", ["0s", "0.0h", 0, -5, float("nan"), float("inf"), "soon", ""])
def test_a_span_that_is_none_switches_nothing_off(span: str | float) -> None:
    """What takes a span takes `0s` for none: a launch would not be proven, or not wait."""
    with pytest.raises(SpecError):
        parse_seconds(span)
    assert parse_seconds("1.5h") == parse_seconds(5400) == 5400.0
