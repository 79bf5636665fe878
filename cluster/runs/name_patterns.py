"""How names of hosts, users, accounts and paths, addresses and ids are written in a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.runs.told_names import told_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.runs.told_names import Kind

# A name may follow an underline (rank_HOST.log), a colour of a terminal, or an escape of JSON, and
# is no part of a longer word.
_COLOURS = ("m", r"\dm", r"\d\dm", r"\d;\d\dm", "K")
_ESCAPES = "".join(
    (
        *(rf"|(?<=\x1b\[{each})|(?<=\\u001b\[{each})" for each in _COLOURS),
        r"|(?<=(?<!\\)\\[nrt])",
    )
)
_START, _START_PATH = r"(?<![^\W_])", r"(?:(?<![\w.])|(?<=-[IL]))"  # -I and -L of a compiler
BEFORE = f"(?:{_START}{_ESCAPES})"
BEFORE_WORD = rf"(?:(?<!\w){_ESCAPES})"  # a plain word is also a part of names of variables
BEFORE_PATH = f"(?:{_START_PATH}{_ESCAPES})"
_ESCAPED = re.compile(r"(?:\x1b|\\u001b)\[[\d;]*[mK]|\\[nrt]")
AFTER = r"(?![^\W_])"
_HEX = "[0-9a-f]"
_OCTETS = r"(?:\d{1,3}\.){3}\d{1,3}"
BEFORE_IPV4, AFTER_IPV4 = r"(?<![\d.])", r"(?!\d)"  # a full stop may end a sentence
MAC = re.compile(rf"{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,19}}", re.IGNORECASE)  # InfiniBand: 20 bytes
IPV4 = re.compile(_OCTETS)

_HOMES = "home|Users|root|fsx|mnt|data|scratch|work|shared|nfs|tmp|lustre|gpfs|efs"
# The same on all hosts, so they say nothing about a user; all other folders may.
_SYSTEM = "bin|boot|dev|etc|lib|lib32|lib64|opt|proc|run|sbin|sys|usr"
_INSIDE = r"internal|local|lan|amazonaws\.com"  # behind the name of a host alone, too
_DOMAINS = (
    "ai|app|arpa|cloud|cluster|com|corp|dev|edu|gov|hpc|intra|intranet|io|mil|net|org|tech|"
    r"ac\.uk|at|au|be|br|ca|ch|cn|cz|de|dk|es|eu|fi|fr|it|jp|kr|nl|no|nz|pl|ru|se|sg|tw|uk|za"
)
_LABEL = r"[A-Za-z0-9](?:[\w-]{0,61}\w)?"
_NUMBER = r"\d+\.\d+(?:e-?\d+)?[,\]\s]"  # most of a run: skipped at once
# Most of a run: values behind one another name nobody.
_VALUE = r"-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?"
_VALUES = re.compile(rf"(?<=[\[,\s])(?:{_VALUE},[ ]?){{3,}}(?:{_VALUE}(?=[\],\s]))?")
_LONG = 60  # characters of a line that is searched once, wherever it occurs
_SEPARATED = r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"


def _all_cases(kind: Kind, text: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(text, re.IGNORECASE | re.MULTILINE)


def _as_written(kind: Kind, text: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(text, re.MULTILINE)


PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    _as_written("path", rf"{_START_PATH}(/(?:{_HOMES})(?:/[\w.@+-]+)*)"),
    _as_written(
        "path", rf"(?<!/){_START_PATH}(/(?!(?:{_SYSTEM})/)[A-Za-z][\w.@+-]*(?:/[\w.@+-]+)+)"
    ),
    _as_written("path", r"\b[A-Za-z]:\\{1,2}Users\\{1,2}([\w.@+-]+(?:\\{1,2}[\w.@+-]+)*)"),
    _as_written("user", rf"{_START}([\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+){AFTER}"),
    _as_written("user", rf"{_START}([A-Za-z_][\w.-]*)@(?=[\w-])"),
    _as_written(
        "user", r"\b(?:[A-Z]+_)*(?:USER|USERNAME|LOGNAME)=[\"']?([A-Za-z_][\w.-]*[A-Za-z0-9_])"
    ),
    _as_written("user", r"\buid=\d+\(([\w.-]+)\)"),
    _as_written("account", r"\barn:aws[\w-]*:[\w-]*:[\w-]*:(\d{12})\b"),
    _as_written("account", r"\b(\d{12})(?=\.dkr\.ecr\.)"),
    _as_written("account", r"(?i:account|owner)\w*[\s\"':=]{1,4}(\d{12})\b"),
    _as_written("account", r"\bprojects/([a-z][a-z0-9-]{4,29})\b"),
    _as_written(
        "id",
        rf"{_START}((?:i|vol|eni|vpc|subnet|sg|ami|r|pl|eipalloc)-[0-9a-f]{{8,17}}){AFTER}",
    ),
    _all_cases("id", rf"{_START}((?:GPU-)?{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}){AFTER}"),
    _as_written("host", rf"{_START}(ip-\d{{1,3}}(?:-\d{{1,3}}){{3}}(?:\.[\w-]+)*)"),
    _as_written(
        "host",
        rf"(?<![A-Za-z0-9.-])(?!{_NUMBER})"
        rf"((?:{_LABEL}\.)+(?:{_INSIDE}){AFTER}|(?:{_LABEL}\.){{2,}}(?:{_DOMAINS})(?![\w-]|\.\w))",
    ),
    _as_written("host", r"Pid +\d+ on +(\S+) device"),
    _as_written("host", r"^([A-Za-z][\w.-]*):\d+:\d+ \[\d+\]"),
    _as_written("host", r"\b(?:[A-Z]+_)*(?:HOSTNAME|NODENAME)=[\"']?([A-Za-z][\w.-]*\w)"),
    _as_written("host", r"\bSLURM_\w*NODELIST=[\"']?([A-Za-z][\w.-]*\w(?:\[[\d,-]+\])?)"),
    _all_cases("host", rf"\b(?:host|node)[ _-]?name{_SEPARATED}([a-z][\w.-]*\w)"),
    _as_written("host", r"^(?:srun|slurmstepd): (?:\w+: )?([A-Za-z][\w.-]*\d): task"),
    _all_cases("address", rf"{_START}({_HEX}{{2}}(?::{_HEX}{{2}}){{5,19}}){AFTER}"),
    _all_cases("address", rf"{_START}({_HEX}{{2}}(?:-{_HEX}{{2}}){{5}}){AFTER}"),
    _all_cases("address", rf"{_START}({_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}){AFTER}"),
    _all_cases("address", rf"guid\w*[\"' \t:=]{{1,9}}((?:0x)?{_HEX}{{16}}){AFTER}"),
    _all_cases("address", rf"(?<![\w:.])({_HEX}{{4}}(?::{_HEX}{{4}}){{3}})(?![\w:])"),
    _all_cases("address", rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}})(?![\w:])"),
    _all_cases(
        "address", rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{1,6}}(?::{_HEX}{{1,4}}){{1,6}})(?![\w:])"
    ),
    _all_cases("address", rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{2,7}}:)(?![\w:])"),
    _as_written("address", f"{BEFORE_IPV4}({_OCTETS}){AFTER_IPV4}"),
)


def names_in(text: str) -> Iterator[tuple[Kind, str]]:
    """Find what the patterns describe, as it is written and without colours and escapes.

    Args:
        text: of a file.

    Yields:
        Each name with its kind; a name may come more than once.

    """
    text = _once(_VALUES.sub(" ", text))
    bare = _ESCAPED.sub(" ", text)
    for written in (text,) if bare == text else (text, bare):
        for kind, pattern in PATTERNS:
            yield from ((kind, match[1]) for match in pattern.finditer(written))
        yield from told_names(written)


def _once(text: str) -> str:
    """Leave out lines that were there before; short ones may be a part of a list, and stay."""
    seen: set[str] = set()
    kept = []
    for line in text.split("\n"):
        if len(line) < _LONG or line not in seen:
            kept.append(line)
            seen.add(line)
    return "\n".join(kept)
