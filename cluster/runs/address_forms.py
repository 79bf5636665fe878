"""How addresses are written: IPv4, IPv6, MACs, GUIDs and GIDs, also as digits alone."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEX = "[0-9a-f]"
_LINE = r"(?:^|(?<=\"))"  # also a string of JSON
_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
_OCTETS = r"(?:\d{1,3}\.){3}\d{1,3}"
BEFORE_IPV4, AFTER_IPV4 = r"(?<![\d.])", r"(?!\d)"  # a full stop may end a sentence
IPV4 = re.compile(_OCTETS)
_MAC = re.compile(rf"{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,19}}", re.IGNORECASE)  # InfiniBand: 20 bytes
_QUAD = re.compile(r"\d{1,3}(?:(?:-\d{1,3}){3}|(?:_\d{1,3}){3})")
_DIGITS = re.compile(rf"(0x)?({_HEX}{{8}}|{_HEX}{{12}}|{_HEX}{{16}}|{_HEX}{{32}})", re.IGNORECASE)
# In what nobody routes (RFC 1918, 3927, 6598), four numbers with dashes or eight hex digits behind
# 0x are an address; others only if the same address is written in the usual way, too. Longer hex
# numbers are pointers, ids of communicators or sums.
_PRIVATE_HEX = rf"(?:0a{_HEX}{{2}}|ac1{_HEX}|c0a8|a9fe|64[4-7]{_HEX})"
# Of a network card, not of a group; no sum of a revision, and no part of /proc/PID/maps.
_FULL_MAC = (
    rf"(?={_HEX}{{12}}{_END})(?!\d{{12}}|[a-f]{{12}}|5[56]|7f)({_HEX}[02468ace]{_HEX}{{10}})"
    rf"(?!-{_HEX}{{12}})(?<!{_HEX}{{12}}-.{{12}})(?<!commit .{{12}})(?<!version .{{12}})"
    r"(?<!revision .{12})(?<!rev .{12})(?<!git .{12})(?<!hash .{12})(?<!sha256:.{12})"
)
# What may be a known address in another form.
_WRITTEN = re.compile(rf"{_START}(?:{_DIGITS.pattern}|{_QUAD.pattern}){_END}", re.IGNORECASE)
_BYTE = 255
_GUIDS = 1 << 32  # smaller numbers at the end of an address were chosen by somebody


def _private(dash: str) -> str:
    """Return the pattern of an address that nobody routes, with dashes in place of dots."""
    number = rf"{dash}\d{{1,3}}"
    two = f"{number}{number}"
    return (
        rf"10{number}{two}|172{dash}(?:1[6-9]|2\d|3[01]){two}|192{dash}168{two}|169{dash}254{two}"
        rf"|100{dash}(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]){two}"
    )


PATTERNS = tuple(
    re.compile(text, re.IGNORECASE | re.MULTILINE)
    for text in (
        rf"{_START}({_HEX}{{2}}(?::{_HEX}{{2}}){{5,19}}){_END}",
        rf"{_START}({_HEX}{{2}}(?:-{_HEX}{{2}}){{5,7}}){_END}",
        rf"{_START}({_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}){_END}",
        rf"{_START}(?<!{_HEX}{{4}}-){_FULL_MAC}",  # nor the end of a UUID
        rf"(?:guid\w*|\b(?:ca|switch|router))[\"'{{ \t:=]{{1,9}}((?:0x)?{_HEX}{{16}}){_END}",
        rf"\"[HSR]-({_HEX}{{16}})|\(({_HEX}{{15,16}})\)",  # ibnetdiscover
        # A GUID that was made of a MAC: 03 00 or ff fe in its middle.
        rf"{_START}((?:0x)?{_HEX}{{6}}(?:0300|fffe){_HEX}{{6}}){_END}",
        rf"(?<![\w:.])({_HEX}{{4}}(?::{_HEX}{{4}}){{3}})(?![\w:])",
        rf"(?<![\w:.])((?:{_HEX}{{0,4}}:){{2,7}}{_OCTETS}){AFTER_IPV4}",
        rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}})(?![\w:])",
        rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{1,6}}(?::{_HEX}{{1,4}}){{1,6}})(?![\w:]|\.\d)",
        rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{2,7}}:)(?![\w:])",
        rf"(?<![\w:.])(::{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{1,6}})(?![\w:]|\.\d)",
        r"(?<![\d:])(\d{1,3}(?::\d{1,3}){15})(?![\d:])",  # a GID, in decimal
        rf"{_START}(fe80(?:0{{12}}){_HEX}{{16}}){_END}",
        rf"{_LINE}({_HEX}{{32}})(?: {_HEX}{{2}}){{4}} ",  # /proc/net/if_inet6
        rf"{_LINE}\S+\t({_HEX}{{8}})\t({_HEX}{{8}})\t{_HEX}{{4}}\t",  # /proc/net/route
        rf"{_LINE} *\d+: ({_HEX}{{8}}):{_HEX}{{4}} ({_HEX}{{8}}):{_HEX}{{4}} ",  # /proc/net/tcp
        rf"{_START}(0x(?:{_PRIVATE_HEX}{_HEX}{{4}}|{_HEX}{{4}}(?:a8c0|fea9))){_END}",
        *(
            rf"{_START}(?<!ip-)(?<!\d[.-])(?<!\d_)({_private(dash)}){_END}(?![-_]\d)"
            for dash in "-_"
        ),
        f"{BEFORE_IPV4}({_OCTETS}){AFTER_IPV4}",
    )
)


def pseudonym(number: int, original: str) -> str:
    """Return an address of a range reserved for tests and documentation: RFC 2544, RFC 3849.

    Returns:
        One that is written as the original is, so that what reads addresses still reads it.

    """
    high, low = number // 250, number % 250 + 1
    if _MAC.fullmatch(original):
        return f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
    if ":" in original:
        return f"2001:db8::{number:x}"
    if IPV4.fullmatch(original):
        return f"198.18.{high}.{low}"
    if _QUAD.fullmatch(original):
        return ("-" if "-" in original else "_").join(("198", "18", str(high), str(low)))
    if match := _DIGITS.fullmatch(original):
        start = {8: "c612", 12: "02", 16: "02", 32: "20010db8"}[len(match[2])]
        return f"{match[1] or ''}{start}{number:0{len(match[2]) - len(start)}x}"
    return f"address{number}"


def other_forms(addresses: Iterable[str], texts: tuple[str, ...]) -> Iterator[str]:
    """Find the same addresses where they are written in another way.

    Yields:
        What has the digits of one of them: 10-0-0-1, 0a000001 and 0100000a for 10.0.0.1, twelve
        digits for a MAC, sixteen for a GID.

    """
    known = {digits for address in addresses for digits in _all_digits(address)}
    for text in texts if known else ():
        for match in _WRITTEN.finditer(text):
            if _digits(match[0]) in known:
                yield match[0]


def _all_digits(address: str) -> Iterator[str]:
    """Return the hex digits of an address, and others of the same one."""
    digits = _digits(address)
    yield digits
    if IPV4.fullmatch(address):
        yield "".join(reversed(re.findall("..", digits)))  # as a little endian writes it
    elif ":" in address and int(digits[16:] or "0", 16) > _GUIDS:
        yield digits[16:]  # the GUID of a GID


def _digits(written: str) -> str:
    """Return the hex digits of an address in any form; what is none has no digits."""
    if IPV4.fullmatch(written) or _QUAD.fullmatch(written):
        numbers = [int(number) for number in re.findall(r"\d+", written)]
        return "".join(f"{number:02x}" for number in numbers) if max(numbers) <= _BYTE else ""
    with contextlib.suppress(ValueError):
        return f"{int(ipaddress.IPv6Address(written)):032x}"
    return re.sub(r"^0x|[:.-]", "", written.lower())
