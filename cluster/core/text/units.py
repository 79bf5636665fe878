"""Sizes, times, rates and prices as people write and read them.

A size is bytes, a time is seconds, a rate is bytes per second. MB = 1e6 bytes and MiB = 2**20
bytes, and the difference is never blurred.
"""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Self

from cluster.core.errors import SpecError
from cluster.core.model.resources import Price
from cluster.core.model.results.records import ExpectedResult
from cluster.core.model.spec import LONGEST_TTL, SHORTEST_TTL, ClusterSpec
from cluster.core.model.value import Scalar

BYTES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
BITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
MINUTE, HOUR = 60.0, 3600.0  # seconds
SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
LARGEST = 2**40
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(s|m|min|h|d)")
_RATE = re.compile(
    r"(\d{1,9}(?:\.\d{1,9})?)\s*(?:([kmgt]?)(?:bit(?:/s)?|bps)|([kmgt]?)(?-i:B/s))", re.IGNORECASE
)
_EXPECTED = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(|(?!e\d)[A-Za-z].{0,30})")
_KNOWN_UNITS = {
    **{
        name: (scale, "s")
        for name, scale in (
            *(("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)),
            *(("\u00b5s", 1e-6), ("\u03bcs", 1e-6)),  # the micro sign, and the Greek letter
        )
    },
    **{f"{name}/s": (float(scale), "B/s") for name, scale in BYTES.items() if name},
    **{name: (scale / 8, "B/s") for name, scale in BITS.items()},
    **{f"{name}/s": (scale / 8, "B/s") for name, scale in BITS.items()},
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


class Sizes(tuple[int, ...]):
    """Message sizes in bytes, as `8:64MiB` (powers of two), `8,65536` or a list of numbers."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: str | int | Iterable[int | str]) -> Self:
        """Read sizes as a person or a script gives them, in bytes and in that order.

        `FIRST:LAST` (every doubling of FIRST up to LAST), a comma-separated list, one size, or a
        list of numbers and such texts; texts may carry a unit (kB, MB, GB = 1e3, 1e6, 1e9 bytes;
        KiB, MiB, GiB = 2**10, 2**20, 2**30). SpecError: a size is not a positive whole number, or a
        range runs backwards.
        """
        if isinstance(value, str):
            return cls(size for part in value.split(",") for size in _expand(part))
        if isinstance(value, int):
            value = (value,)
        parts = (
            cls.parse(item) if isinstance(item, str) else (_check_size(item, str(item)),)
            for item in value
        )
        return cls(size for part in parts for size in part)

    def __str__(self) -> str:
        return ",".join(str(size) for size in self)


def _expand(part: str) -> Iterable[int]:
    first, colon, last = part.partition(":")
    if not colon:
        return (parse_size(first),)
    low, high = parse_size(first), parse_size(last)
    if low > high:
        raise SpecError(
            f"The sizes {part!r} are in the wrong order: {low} B is more than {high} B.",
            remedy=f"Write the smaller one first: --sizes {last}:{first}",
        )
    return [low << k for k in range((high // low).bit_length())]


def parse_size(text: str) -> int:
    """Read one size, such as `8`, `64KiB` or `1.5MB`, in whole bytes (SpecError)."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in BYTES:
        raise SpecError(
            f"{text!r} is not a size.",
            remedy="Write bytes or a unit: 8, 65536, 64KiB, 1MB, 8:64MiB (powers of two).",
        )
    size = Decimal(match[1]) * BYTES[match[2]]
    if size != size.to_integral_value():
        raise SpecError(f"The size {text!r} is not a whole number of bytes.")
    return _check_size(int(size), text)


def _check_size(size: object, text: str) -> int:
    if isinstance(size, float) and not size.is_integer():
        raise SpecError(f"The size {text} is not a whole number of bytes.")
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= LARGEST:
        raise SpecError(
            f"The size {text} is not between 1 B and 1 TiB.",
            remedy="Give a positive number of bytes, such as --sizes 8:64MiB.",
        )
    return size


def format_size(size: int) -> str:
    """Format a size in the shortest exact way: `8 B`, `64 KiB`, `100 MB`."""
    for unit in ("GB", "GiB", "MB", "MiB", "KiB", "kB"):
        if size >= BYTES[unit] and size % BYTES[unit] == 0:
            return f"{size // BYTES[unit]} {unit}"
    return f"{size} B"


def format_point(params: Mapping[str, Scalar]) -> str:
    """Format a point of the parameters: `100 MB, rank 1`; a whole `size` is bytes."""
    return ", ".join(
        format_size(value) if key == "size" and isinstance(value, int) else f"{key} {value}"
        for key, value in params.items()
    )


def format_value(value: float, unit: str) -> str:
    """Format a value with four significant digits: `1.116 µs`, `4.323 GB/s`, `10,500 images/s`."""
    if unit == "s":
        return _with_unit(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))
    if unit == "B/s":
        return _with_unit(value, ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")))
    if unit == "B":
        return _with_unit(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")))
    digits = f"{value:.4g}"
    return f"{float(digits):,.0f} {unit}" if "e+" in digits else f"{digits} {unit}"


def format_tick(value: float, unit: str) -> str:
    """Format a round value, such as the tick of an axis, without trailing zeros: `100 MB/s`."""
    digits, _, scale = format_value(value, unit).partition(" ")
    return f"{float(digits.replace(',', '')):g} {scale}"


def _with_unit(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    # From 0.99995 of a unit on, four digits would round to 1000 of the next smaller one.
    factor, unit = next((s for s in scales if abs(value) >= 0.99995 * s[0]), scales[-1])
    digits = f"{value / factor:#.4g}".removesuffix(".")
    return f"{digits} {unit}"


def parse_rate(text: str) -> float:
    """Read the rate of a link in bytes per second: `1gbit`, `100mbit`, `300 GB/s` (SpecError)."""
    match = _RATE.fullmatch(text.strip())
    bits = 0.0
    if match is not None:
        of_bits, of_bytes = match[2], match[3]
        prefix = of_bits if of_bits is not None else of_bytes
        bits = float(match[1]) * BITS[f"{prefix.lower()}bit"] * (8 if of_bits is None else 1)
    if not bits:
        raise SpecError(
            f"{text!r} is not a rate.",
            remedy="Write bits per second: 100mbit, 1gbit, 2.5gbit; or bytes: 300GB/s.",
        )
    return bits / 8


def format_bytes(size: float) -> str:
    if size < BYTES["kB"]:
        return f"{size:.4g} B"
    return _with_unit(size, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")))


def format_rate(rate: float) -> str:
    """Format the rate of a link, in bytes per second, as `parse_rate` reads it: `1gbit`."""
    bits = rate * 8
    unit = next((unit for unit in ("gbit", "mbit", "kbit") if bits >= BITS[unit]), "bit")
    return f"{bits / BITS[unit]:.12g}{unit}"


def parse_percent(text: str, flag: str) -> float:
    """Read a share, such as `10%`, for a flag (SpecError)."""
    number = text.removesuffix("%")
    if not (text.endswith("%") and number.isdecimal() and 0 < int(number) <= 100):  # noqa: PLR2004
        raise SpecError(f"{flag} {text} is no percentage.", remedy=f"Such as: {flag} 10%")
    return int(number) / 100


def parse_expected(text: str) -> ExpectedResult:
    """Read the value that a user expects: `12us`, `1.1GB/s`, `10gbit`, `220 images/s`, or `3`.

    It is in seconds or bytes per second, if it is one of these. SpecError: it is no positive
    number.
    """
    match = _EXPECTED.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise SpecError(
            f"{text!r} is not an expected value.",
            remedy="Write a number, with a unit if you like: 220, 12us, 1.1GB/s, 10gbit.",
        )
    unit = match[2]
    scale, base_unit = _KNOWN_UNITS.get(unit, (1.0, unit))
    return ExpectedResult(value=float(Decimal(match[1]) * Decimal(str(scale))), unit=base_unit)


def parse_seconds(span: str | float) -> float:
    """Read a duration: seconds, or such as `2h`, `90min`, `1.5h`, `45s`, `2d` (SpecError)."""
    match = _SPAN.fullmatch(span.strip().lower()) if isinstance(span, str) else None
    if match is None and isinstance(span, str):
        raise SpecError(f"{span!r} is not a duration.", remedy="Write 60s, 90min or 2h.")
    seconds = float(match[1]) * SECONDS[match[2]] if match else float(span)
    if not 0 < seconds < math.inf:
        raise SpecError(
            f"The duration is {seconds:g} s; it must be more than 0, and finite.",
            remedy="Write 60s, 90min or 2h.",
        )
    return seconds


def format_seconds(seconds: float) -> str:
    """Format a duration in one or two units: `3.2 s`, `5 min 12 s`, `2 h 3 min`."""
    if round(seconds, 1) < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:  # noqa: PLR2004 - minutes in an hour
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def dollars(price: Price, hosts: int, seconds: float) -> float:
    return price.hourly * hosts * seconds / HOUR


def lifetime(spec: ClusterSpec, price: Price | None, usual: float) -> float:
    """Return after how many seconds --ttl and --max-cost end machines, else `usual` (SpecError)."""
    if spec.max_cost is None:
        return spec.ttl or usual
    if price is None:
        raise SpecError(
            f"--max-cost is ${spec.max_cost:g}, and the price of these machines is not known.",
            means="Nobody could say when they have cost that much; nothing was created.",
            remedy="Set a time instead: --ttl 2h",
        )
    most = spec.max_cost / dollars(price, spec.hosts, MINUTE) // 1 * MINUTE
    if most < SHORTEST_TTL:
        raise SpecError(
            f"--max-cost is ${spec.max_cost:g}, which pays for less than a minute of "
            f"{spec.hosts} x ${price.hourly:.4g} an hour.",
            remedy="Choose fewer or cheaper machines, or more: --max-cost 20",
        )
    return min(most, spec.ttl or LONGEST_TTL)


def price_line(price: Price | None, hosts: int, ttl: float) -> str:
    """Say what hosts will cost at most, if they end by themselves after `ttl` seconds."""
    if price is None:
        return "price: unknown"
    hourly, most = dollars(price, hosts, HOUR), dollars(price, hosts, ttl)
    return (
        f"price: {hosts} x ${price.hourly:.4g} = ${hourly:.4g} an hour, at most ${most:.2f} in "
        f"{format_seconds(ttl)} ({price.source}, {price.at}; disks, addresses and traffic not "
        "counted)"
    )
