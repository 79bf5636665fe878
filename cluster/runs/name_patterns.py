"""How names of hosts, users, accounts and paths, addresses and ids are written in a text."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["host", "address", "id", "account", "user", "path"]

# A name may follow an underline (rank_HOST.log), a colour of a terminal, or an escape of JSON, and
# is no part of a longer word.
_COLOURS = ("m", r"\dm", r"\d\dm", r"\d;\d\dm", "K")
_ESCAPES = "".join(
    (
        *(rf"|(?<=\x1b\[{each})|(?<=\\u001b\[{each})" for each in _COLOURS),
        r"|(?<=(?<!\\)\\[nrt])",
    )
)
BEFORE = rf"(?:(?<![^\W_]){_ESCAPES})"
BEFORE_WORD = rf"(?:(?<!\w){_ESCAPES})"  # a plain word is also a part of names of variables
BEFORE_PATH = rf"(?:(?<![\w.]){_ESCAPES}|(?<=-[IL]))"  # and of a compiler's options
AFTER = r"(?![^\W_])"
_HEX = "[0-9a-f]"
_OCTETS = r"(?:\d{1,3}\.){3}\d{1,3}"
BEFORE_IPV4, AFTER_IPV4 = r"(?<![\d.])", r"(?!\d)"  # a full stop may end a sentence
MAC = re.compile(rf"{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,19}}", re.IGNORECASE)  # InfiniBand: 20 bytes
IPV4 = re.compile(_OCTETS)

_HOMES = "home|Users|root|fsx|mnt|data|scratch|work|shared|nfs|tmp|lustre|gpfs|efs"
# The same on all hosts, so they say nothing about a user; all other folders may.
_SYSTEM = "bin|boot|dev|etc|lib|lib32|lib64|opt|proc|run|sbin|sys|usr"
_DOMAINS = (
    "internal|local|lan|amazonaws\\.com|arpa|cloud|cluster|com|corp|edu|gov|hpc|intra|intranet|mil|"
    "net|org|ac\\.uk|at|au|be|br|ca|ch|cn|de|dk|es|eu|fi|fr|jp|kr|nl|se|tw|uk"
)
_LABEL = r"[A-Za-z0-9](?:[\w-]*\w)?"
_SEPARATED = r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"


def _all_cases(kind: Kind, text: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(text, re.IGNORECASE | re.MULTILINE)


def _as_written(kind: Kind, text: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(text, re.MULTILINE)


PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    _as_written("path", rf"{BEFORE_PATH}(/(?:{_HOMES})(?:/[\w.@+-]+)*)"),
    _as_written(
        "path", rf"(?<!/){BEFORE_PATH}(/(?!(?:{_SYSTEM})/)[A-Za-z][\w.@+-]*(?:/[\w.@+-]+)+)"
    ),
    _as_written("path", r"\b[A-Za-z]:\\{1,2}Users\\{1,2}([\w.@+-]+(?:\\{1,2}[\w.@+-]+)*)"),
    _as_written("user", rf"{BEFORE}([\w.+-]+@[\w-]+(?:\.[\w-]+)+){AFTER}"),
    _as_written("user", rf"{BEFORE}([A-Za-z_][\w.-]*)@(?=[\w-])"),
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
        rf"{BEFORE}((?:i|vol|eni|vpc|subnet|sg|ami|r|pl|eipalloc)-[0-9a-f]{{8,17}}){AFTER}",
    ),
    _all_cases("id", rf"{BEFORE}((?:GPU-)?{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}){AFTER}"),
    _as_written("host", rf"{BEFORE}(ip-\d{{1,3}}(?:-\d{{1,3}}){{3}}(?:\.[\w-]+)*)"),
    _as_written(
        "host",
        rf"{BEFORE}([A-Za-z0-9][\w-]*(?:\.{_LABEL})*\.(?:internal|local|lan|amazonaws\.com)){AFTER}",
    ),
    _as_written("host", rf"{BEFORE}({_LABEL}(?:\.{_LABEL})+\.(?:{_DOMAINS}))(?![\w-]|\.\w)"),
    _as_written("host", r"Pid +\d+ on +(\S+) device"),
    _as_written("host", r"^([A-Za-z][\w.-]*):\d+:\d+ \[\d+\]"),
    _as_written("host", r"\b(?:[A-Z]+_)*(?:HOSTNAME|NODENAME)=[\"']?([A-Za-z][\w.-]*\w)"),
    _as_written("host", r"\bSLURM_\w*NODELIST=[\"']?([A-Za-z][\w.-]*\w(?:\[[\d,-]+\])?)"),
    _all_cases("host", rf"\b(?:host|node)[ _-]?name{_SEPARATED}([a-z][\w.-]*\w)"),
    _as_written("host", r"^(?:srun|slurmstepd): (?:\w+: )?([A-Za-z][\w.-]*\d): task"),
    _all_cases("address", rf"{BEFORE}({_HEX}{{2}}(?::{_HEX}{{2}}){{5,19}}){AFTER}"),
    _all_cases("address", rf"{BEFORE}({_HEX}{{2}}(?:-{_HEX}{{2}}){{5}}){AFTER}"),
    _all_cases("address", rf"{BEFORE}({_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}){AFTER}"),
    _all_cases("address", rf"guid\w*[\"' \t:=]{{1,9}}((?:0x)?{_HEX}{{16}}){AFTER}"),
    _all_cases("address", rf"(?<![\w:.])({_HEX}{{4}}(?::{_HEX}{{4}}){{3}})(?![\w:])"),
    _all_cases("address", rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}})(?![\w:])"),
    _all_cases(
        "address", rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{1,6}}(?::{_HEX}{{1,4}}){{1,6}})(?![\w:])"
    ),
    _all_cases("address", rf"(?<![\w:.])((?:{_HEX}{{1,4}}:){{2,7}}:)(?![\w:])"),
    _as_written("address", f"{BEFORE_IPV4}({_OCTETS}){AFTER_IPV4}"),
)
