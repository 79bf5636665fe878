"""Names that follow from others: hosts of a list, and hosts with their domain and without it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cluster.runs.known_words import Kind

_START, _END = r"(?<![^\W_])", r"(?![^\W_])"
_RANGES = r"\[[\d,-]{1,400}\]"  # node[01-16]
_COMPRESSED = re.compile(rf"([\w.-]*?)\d*{_RANGES}([\w.-]*)")


def short_names(names: Iterable[tuple[str, Kind]]) -> Iterator[str]:
    """Return the first label of each host with a domain: logs have it alone, too."""
    for name, kind in names:
        label, dot, rest = name.partition(".")
        has_digit = any(letter.isdigit() for letter in label) and not label.isdigit()
        if kind == "host" and dot and rest and has_digit:
            yield label


def of_a_list(names: Iterable[str], texts: tuple[str, ...]) -> Iterator[str]:
    """Find the hosts that a list such as `node[01-16]` stands for.

    Yields:
        Names in the texts that begin and end as those of a list, with digits between.

    """
    shapes = {m.groups() for name in names if (m := _COMPRESSED.fullmatch(name)) and m[1]}
    for before, after in sorted(shapes):
        one = re.compile(rf"{_START}({re.escape(before)}\d+{re.escape(after)}){_END}")
        for text in texts:
            yield from one.findall(text)


_DOTTED = re.compile(r"(?<![\w.-])([A-Za-z][\w-]*\d[\w-]*)(?:\.[A-Za-z][\w-]*)+(?![\w(])")
_FILES = re.compile(
    r".*\.(?:bak|bin|cfg|conf|csv|dat|db|err|gz|html?|jsonl?|lock|log|md|old|out|pcap|pid|png|prom|rep"
    r"|sh|sock|sqlite|svg|tar|te?xt|tgz|toml|xml|ya?ml|zip|zst|\d+)",
    re.IGNORECASE,
)


def with_domains(names: Mapping[str, Kind], texts: tuple[str, ...]) -> Iterator[str]:
    """Find hosts that were found, where a domain is behind them: it names a site.

    Yields:
        Names with a domain; a file that is called after a host is none.

    """
    for text in texts:
        for match in _DOTTED.finditer(text):
            if names.get(match[1]) == "host" and not _FILES.fullmatch(match[0]):
                yield match[0]
