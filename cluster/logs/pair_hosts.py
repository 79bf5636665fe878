"""The two hosts that a log is between: from its lines, or from the name of its file."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

from cluster.core.errors import SpecError
from cluster.logs.text import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Pair = tuple[str, str]
NEAR = 2  # lines between the lines of two ranks that belong to one list
IP = 4  # parts of an IPv4 address
MOST = 10_000  # hosts of a range such as `node[1-2]`

# Of a line, which is at most `LONGEST` long: each pattern takes time in proportion to its length.
_RANK = re.compile(
    r"\s*+#?\s*+(?:\[\d+\]\s*+)?Rank:?\s+\d++\b.*?\bon\s++(?:host\s+|node\s+)?([\w.-]+)"
)
_STARTED = re.compile(r"\s*(?:\[\d+\] )?MPI startup\(\):\s+\d+\s+\d+\s+([\w.-]+)\s+[{\d]")
_NAMED = re.compile(
    r"\b(?:nodes?|hosts?|pair)\b[:= ]++([\w.-]++)(?:\s*+[,;]\s*+|\s++(?:(?:and|to|vs\.?|->)\s++)?)"
    r"([\w.-]++)\s*+$",
    re.IGNORECASE,
)
_STARTER = re.compile(r"\b(?:srun|mpirun|mpiexec|prun|flux run)\b")
_HOST_FLAG = re.compile(r"(?:^|\s)(?:-w|--nodelist|-H|-host|--hosts?)[= ]\s*['\"]?([\w.:,\[\]-]+)")
_JSON_HOSTS = re.compile(r'"(?:hostlist|nodelist)":\s*+\[?\s*+"([^"]+)"(?:\s*+,\s*+"([^"]+)")?')
_CONNECTED = re.compile(r"\blocal ([\w.:-]+) port \d+ connected (?:to|with) ([\w.:-]+) port \d+")
_JSON_END = re.compile(r'"(local|remote)_host":\s*+"([^"]+)"')  # of a connection of iperf3
_BRACKETS = re.compile(r"([\w.-]*)\[([\d,-]+)\]([\w.-]*)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_SEPARATED = re.compile(r"[^\W_]+|[\W_]")
_SUFFIXES = re.compile(r"(?:\.(?:log|out|txt|err|json|csv|gz|result))+$", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_BETWEEN = re.compile(r"([_.-])(?:to|vs|and)\1|__+|--+")


class HostLine(NamedTuple):
    """The hosts that a line, or a list of ranks, names.

    Args:
        line: its number, from 1.
        place: whether the results that follow were measured between them (`ahead`), the result in
            which the line is (`inside`), or all results of the log (`anywhere`).

    """

    line: int
    hosts: tuple[str, ...]
    place: Literal["ahead", "inside", "anywhere"]


def host_lines(text: str) -> list[HostLine]:
    """Find the lines that say on which hosts a log was measured; a list of ranks is one line."""
    found = [
        *_rank_lists(text),
        *(
            HostLine(number, hosts, place)
            for number, line in enumerate(text.splitlines(), 1)
            for hosts, place in (_of_line(line) if len(line) <= LONGEST else ())
        ),
        *_json_ends(text),
    ]
    return sorted(found)


def _json_ends(text: str) -> Iterator[HostLine]:
    """Return both ends of each connection in a document of iperf3."""
    local = ""
    for number, line in enumerate(text.splitlines(), 1):
        for end, host in _JSON_END.findall(line):
            if end == "local":
                local = host
            elif local:
                yield HostLine(number, (local, host), "inside")
                local = ""


def _rank_lists(text: str) -> Iterator[HostLine]:
    """Return the hosts of each list of ranks."""
    hosts: dict[str, None] = {}
    first = last = 0
    for number, line in enumerate(text.splitlines(), 1):
        match = len(line) <= LONGEST and (_RANK.match(line) or _STARTED.match(line))
        if not match:
            continue
        if hosts and number > last + NEAR:
            yield HostLine(first, tuple(hosts), "inside")
            hosts = {}
        first = first if hosts else number
        hosts[match[1]] = None
        last = number
    if hosts:
        yield HostLine(first, tuple(hosts), "inside")


def _of_line(line: str) -> Iterator[tuple[tuple[str, ...], Literal["ahead", "inside", "anywhere"]]]:
    if (match := _CONNECTED.search(line)) is not None:
        yield (match[1], match[2]), "inside"
    elif (match := _JSON_HOSTS.search(line)) is not None:
        yield tuple(_listed(",".join(filter(None, match.groups())))), "anywhere"
    elif _STARTER.search(line) and (match := _HOST_FLAG.search(line)) is not None:
        yield tuple(_listed(match[1])), "ahead"
    elif (match := _NAMED.search(line)) is not None and _alike(match[1], match[2]):
        yield (match[1], match[2]), "ahead"


def _listed(text: str) -> Iterator[str]:
    """Return the hosts of a list such as `a:1,b:1` or `node[1-2]`, each once."""
    words = re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text)
    yield from dict.fromkeys(name.partition(":")[0] for word in words for name in _expanded(word))


def _expanded(word: str) -> Iterator[str]:
    match = _BRACKETS.fullmatch(word)
    if not match:
        yield word
        return
    for low, high in _RANGE.findall(match[2]):
        for number in range(int(low), min(int(high or low), int(low) + MOST) + 1):
            yield f"{match[1]}{number:0{len(low)}}{match[3]}"


def _alike(one: str, other: str) -> bool:
    """Tell whether two words differ in their numbers only, as names of hosts do."""
    return one != other and _DIGITS.sub("0", one) == _DIGITS.sub("0", other)


def hosts_of_results(lines: Sequence[HostLine], firsts: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the hosts that each result of a log was measured on; none if no line says it."""
    ends = [*firsts[1:], float("inf")]
    only = {frozenset(line.hosts) for line in lines}
    found = []
    for first, end in zip(firsts, ends, strict=True):
        own = [line for line in lines if first <= line.line < end]
        inside = [line.hosts for line in own if line.place == "inside"]
        ahead = [line.hosts for line in lines if line.place == "ahead" and line.line <= first]
        known = inside[:1] or ahead[-1:] or [line.hosts for line in lines[:1] if len(only) == 1]
        found.append(known[0] if known else ())
    return found


def hosts_in_name(name: str) -> Pair | None:
    """Find the hosts in the name of a file, such as `nccl_N2_gpu-001_gpu-002.log`.

    They are side by side, and differ in their numbers only; none if there are several such pairs.
    """
    stem = _BETWEEN.sub("_", _SUFFIXES.sub("", name))
    parts = _SEPARATED.findall(stem)
    found: defaultdict[tuple[bool, int], set[Pair]] = defaultdict(set)
    for at, size in product(range(len(parts)), range(1, len(parts) // 2 + 1, 2)):
        one, other = parts[at : at + size], parts[at + size + 1 : at + 2 * size + 1]
        if len(other) < size or not _is_separator(parts[at + size]):
            continue
        pair = "".join(one), "".join(other)
        if not _alike(*pair) or any(map(_is_separator, (one[0], one[-1]))):
            continue
        named = _has_letters(pair[0])
        if named or size == 2 * IP - 1 or "".join(pair) == stem.replace(parts[at + size], "", 1):
            found[named, size].add(pair)
    best = found[max(found)] if found else set()
    if len(best) != 1 or any(_has_letters(half) and hosts_in_name(half) for half in min(best)):
        return None
    return best.pop()


def _has_letters(text: str) -> bool:
    return any(c.isalpha() for c in text)


def _is_separator(part: str) -> bool:
    return not part.isalnum()


def hosts_by_pattern(pattern: str, name: str) -> Pair | None:
    """Find two hosts in the name of a file, by a pattern such as `*bw_{a}_{b}.log`.

    Raises:
        SpecError: the pattern does not name both hosts.
    """
    if pattern.count("{a}") != 1 or pattern.count("{b}") != 1:
        raise SpecError(
            f"--pairs-pattern {pattern} does not say where both hosts are.",
            remedy="Write {a} and {b} in their places, such as: --pairs-pattern 'bw_{a}_{b}.log'",
        )
    words = {"{a}": r"(?P<a>[\w.-]+?)", "{b}": r"(?P<b>[\w.-]+?)", "*": ".*"}
    parts = re.split(r"(\{a\}|\{b\}|\*)", pattern)
    match = re.fullmatch("".join(words.get(part, re.escape(part)) for part in parts), name)
    return (match["a"], match["b"]) if match else None


def host_order(names: Iterable[str]) -> list[str]:
    """Sort names of hosts: node2 before node10."""
    return sorted(set(names), key=_natural)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(p) if p.isdecimal() else -1, p) for p in re.split(r"(\d+)", name)]
