"""Pseudonyms for names, addresses, ids and paths: the same name always has the same one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.agent.host_settings import SYSCTLS
from cluster.core.model.value import Value
from cluster.runs import address_forms
from cluster.runs.address_forms import AFTER_IPV4, BEFORE_IPV4, IPV4
from cluster.runs.known_words import Kind
from cluster.runs.name_patterns import (
    AFTER,
    BEFORE,
    BEFORE_PATH,
    BEFORE_WORD,
    names_in,
    without_escapes,
)
from cluster.runs.related_names import of_a_list, short_names, with_domains

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

FIELDS: dict[str, Kind] = {  # in run.json and measurements.jsonl, at any depth
    "host": "host",
    "alias": "host",
    "hostname": "host",
    "address": "address",
    "user": "user",
    "folder": "path",
    "bin": "path",
    "key": "path",
    "known_hosts": "path",
}
MACHINE_FIELDS: dict[str, Kind] = {"name": "host", "id": "id"}
KEPT = {"", "localhost", "127.0.0.1", "0.0.0.0", "::1", "root", "all"}  # noqa: S104 - a word
NETMASK = "255."
OWN = ("run.json", "measurements.jsonl")  # the files of a run that `cluster` reads again
RAW = "raw/"
# Fields of those files whose values are words of `cluster`, which a host may be called, too.
WORDS = {"access", "benchmark", "better", "definition", "flow", "medium", "metric", "operation"}
WORDS |= {"provider", "shell", "status", "unit"}
STRING = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?')  # of JSON; with a colon, it is a key
DEFINITION = re.compile(r"\w+\.[\w.]+-[0-9a-f]{8}")
PLAIN = re.compile(r"[A-Za-z_]+")  # a name that may also be a word
SETTING = "|".join(map(re.escape, SYSCTLS))  # vm.nr_hugepages is no host of the name vm
SHORTEST = 2  # characters of a name, at least, for it to be replaced


class Replacement(Value, frozen=True, kw_only=True):
    """A name that was replaced."""

    kind: Kind
    original: str
    pseudonym: str


def replacements(texts: Iterable[str], values: Iterable[object]) -> tuple[Replacement, ...]:
    """Find the names that identify a user or a host, and choose their pseudonyms.

    Returns:
        A replacement for each name, in the order in which they were found.

    """
    found: dict[str, Kind] = {}
    texts = tuple(texts)
    for kind, name in (*_in_fields(values), *_in_all(texts)):
        found.setdefault(name, kind)
    found = {name: kind for name, kind in found.items() if not _is_kept(name)}
    texts = tuple(map(without_escapes, texts))
    for name in (*of_a_list(found, texts), *short_names(found.items())):
        found.setdefault(name, "host")
    for name in with_domains(found, texts):
        found.setdefault(name, "host")
    addresses = [name for name, kind in found.items() if kind == "address"]
    for name in address_forms.other_forms(addresses, texts):
        found.setdefault(name, "address")
    counts: dict[Kind, int] = {}
    made = []
    for original, kind in found.items():
        pseudonym = original
        while pseudonym in found:  # hosts may really be called host1 and host2
            counts[kind] = counts.get(kind, 0) + 1
            pseudonym = _PSEUDONYMS[kind](counts[kind], original)
        made.append(Replacement(kind=kind, original=original, pseudonym=pseudonym))
    return tuple(made)


def _is_kept(name: str) -> bool:
    return name in KEPT or len(name) < SHORTEST or name.startswith(NETMASK)


def replace(name: str, text: str, found: Iterable[Replacement]) -> str:
    """Replace all names in a file.

    Args:
        found: what to replace; longer names are replaced first, so that no part of one is left.

    Returns:
        The text. In the files that `cluster` reads again, keys and its own words stay, even if a
        host has such a name.

    """
    found = tuple(found)
    everywhere = _replacer(found)
    if name not in OWN:
        return everywhere(text)
    in_keys = _replacer(each for each in found if not PLAIN.fullmatch(each.original))
    key = ""

    def replaced(match: re.Match[str]) -> str:
        nonlocal key
        if match[2]:
            key = match[1][1:-1]
            return match[0] if DEFINITION.fullmatch(key) else in_keys(match[0])
        return match[0] if key in WORDS else everywhere(match[0])

    return STRING.sub(replaced, text)


def replace_in_name(name: str, found: Iterable[Replacement]) -> str:
    """Replace all names in the name of a file.

    Returns:
        The name; a file that `cluster` reads again keeps its own.

    """
    if name in OWN:
        return name
    start = RAW if name.startswith(RAW) else ""
    return start + _replacer(found, words=False)(name.removeprefix(start))


def left(name: str, text: str, found: Iterable[Replacement]) -> tuple[Replacement, ...]:
    """Find names that are still in a file.

    Args:
        text: of the file, after `replace`.

    Returns:
        Those that the text still has as a whole word, where `replace` would replace it.

    """
    if replace(name, text, found) == text:
        return ()
    return tuple(each for each in found if replace(name, text, [each]) != text)


def _replacer(found: Iterable[Replacement], *, words: bool = True) -> Callable[[str], str]:
    """Make the function that replaces names in a text, and keeps settings of the kernel.

    In a text, a plain word is replaced only if it is a word of its own; in the name of a file, also
    as a part of it.
    """
    table = {each.original: each.pseudonym for each in found}
    if not table:
        return lambda text: text
    pattern = re.compile(
        rf"(?<![\w.])(?:{SETTING})(?![\w.])|{'|'.join(_alternatives(table, words=words))}"
    )
    return lambda text: pattern.sub(lambda match: table.get(match[0], match[0]), text)


def _alternatives(names: Iterable[str], *, words: bool) -> Iterator[str]:
    """Write the pattern of each kind of name, with what may stand before and after it."""
    shapes: dict[tuple[str, str], list[str]] = {}
    for name in sorted(names, key=len, reverse=True):
        shapes.setdefault(_around(name, words=words), []).append(name)
    for (before, after), own in shapes.items():
        first = re.escape("".join({name[0] for name in own}))  # most places are none
        yield f"(?=[{first}]){before}(?:{'|'.join(map(re.escape, own))}){after}"


def _around(name: str, *, words: bool) -> tuple[str, str]:
    if IPV4.fullmatch(name):
        return BEFORE_IPV4, AFTER_IPV4
    if name.startswith("/"):
        return BEFORE_PATH, AFTER
    return (BEFORE_WORD, r"(?!\w)") if words and PLAIN.fullmatch(name) else (BEFORE, AFTER)


def _in_fields(values: Iterable[object]) -> Iterator[tuple[Kind, str]]:
    for value in values:
        yield from _named(value)


def _in_all(texts: Iterable[str]) -> Iterator[tuple[Kind, str]]:
    for text in texts:
        yield from names_in(text)


def _named(value: object, *, machine: bool = False) -> Iterator[tuple[Kind, str]]:
    """Return the names in the fields of a decoded file."""
    if isinstance(value, list):
        for item in value:
            yield from _named(item, machine=machine)
    if not isinstance(value, dict):
        return
    fields = {**FIELDS, **(MACHINE_FIELDS if machine else {})}
    for key, item in value.items():
        if isinstance(item, str) and key in fields:
            yield fields[key], item
        elif not isinstance(item, str):
            yield from _named(item, machine=key == "machines")


_PSEUDONYMS: Mapping[Kind, Callable[[int, str], str]] = {
    "host": lambda number, _: f"host{number}",
    "address": address_forms.pseudonym,
    "id": lambda number, _: f"id{number}",
    "account": lambda number, _: f"account{number}",
    "user": lambda number, _: f"user{number}",
    "path": lambda number, _: f"/path{number}",
}
