"""How names of hosts, users, accounts and paths, addresses and ids are written in a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.runs.address_forms import PATTERNS as ADDRESSES
from cluster.runs.known_words import is_name
from cluster.runs.told_names import told_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.runs.known_words import Kind

# A name may follow an underline (rank_HOST.log), a colour of a terminal, or an escape of JSON, and
# is no part of a longer word.
_COLOURS = ("m", r"\dm", r"\d\dm", r"\d;\d\dm", "K")
_ESCAPES = "".join(
    (
        *(rf"|(?<=\x1b\[{each})|(?<=\\u001b\[{each})" for each in _COLOURS),
        r"|(?<=\\[nrt])",
    )
)
_START, _START_PATH = r"(?<![^\W_])", r"(?:(?<![\w.])|(?<=-[IL]))"  # -I and -L of a compiler
BEFORE = f"(?:{_START}{_ESCAPES})"
BEFORE_WORD = rf"(?:(?<!\w){_ESCAPES})"  # a plain word is also a part of names of variables
BEFORE_PATH = f"(?:{_START_PATH}{_ESCAPES})"
_COLOUR = r"(?:(?:\x1b|\\{1,8}u001b)\[[\d;]{0,20}[mK])+"
_BETWEEN = r"[^\W_]"  # letters of one word are not brought together
_ESCAPED = re.compile(
    rf"(?<!{_BETWEEN}){_COLOUR}|{_COLOUR}(?!{_BETWEEN})|\\{{1,8}}([nrt])|({_COLOUR})"
)
_BLANKS = {"n": "\n", "r": "\n", "t": "\t"}
AFTER = r"(?![^\W_])"
_HEX = "[0-9a-f]"

_HOMES = "home|Users|root|fsx|mnt|data|scratch|work|shared|nfs|tmp|lustre|gpfs|efs"
# The same on all hosts, so they say nothing about a user; all other folders may.
_SYSTEM = "bin|boot|dev|etc|lib|lib32|lib64|opt|proc|run|sbin|sys|usr"
# What is installed under /opt and /usr/local, with a version or without; other folders there are
# of a site or a user.
_INSTALLED = (
    "bin|etc|games|include|lib|lib32|lib64|libexec|man|sbin|share|src|tools|"
    "amazon|amd|amdgpu|aws|azurehpc|cni|containerd|cray|dell|docker|google|hpe?|ibm|intel|kubernetes|"
    "mellanox|microsoft|nvidia|oci-hpc|ohpc|oracle|pbs|rocm|sge|slurm|xilinx|"
    "cuda|cudnn|dcgm|efa|gdrcopy|hpc_sdk|hpcx|libfabric|mpi|mpich|mvapich2?(?:-gdr)?|nccl|"
    "nccl-tests|nccl-rdma-sharp-plugins|open-?mpi(?:-cuda)?|osu-micro-benchmarks|pmix|prrte|ucc|ucx|"
    "apptainer|conda|anaconda|easybuild|gcc|go|homebrew|julia|llvm|miniconda|miniforge|python|"
    "pytorch|singularity|spack|tensorflow|venv"
)
_VERSION = r"(?:-?v?\d[\w.+-]*)?(?![\w.+-])"
_OF_TOOLS = r"nccl|sem\.|vader_|sm_|ucx|psm|ompi|mpich|torch_|cuda|cluster-"  # in /dev/shm
_RESOURCES = (  # of Amazon; with 17 digits, any word may be before them
    "acl|ami|cr|dopt|eipalloc|eipassoc|eni|fs|i|igw|lt|nat|pg|pl|r|rtb|sg|snap|subnet|vol|vpc"
)
_INSIDE = r"internal|local|lan|amazonaws\.com"  # behind the name of a host alone, too
_DOMAINS = (
    "ai|app|arpa|cloud|cluster|com|corp|dev|edu|gov|hpc|intra|intranet|io|mil|net|org|tech|"
    r"ac\.uk|at|au|be|br|ca|ch|cn|cz|de|dk|es|eu|fi|fr|it|jp|kr|nl|no|nz|pl|ru|se|sg|tw|uk|za"
)
_FILE = "csv|err|gz|jsonl?|log|out|te?xt"
_LABEL = r"[A-Za-z0-9](?:[\w-]{0,61}\w)?"
_NUMBER = r"\d+\.\d+(?:e-?\d+)?[,\]\s]"  # most of a run: skipped at once
# Most of a run: values behind one another name nobody.
_VALUE = r"-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?"
_VALUES = re.compile(rf"(?<=[\[,\s])(?:{_VALUE},[ ]?){{3,}}(?:{_VALUE}(?=[\],\s]))?")
_LONG = 60  # characters of a line that is searched once, wherever it occurs


def _all_cases(kind: Kind, text: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(text, re.IGNORECASE | re.MULTILINE)


def _as_written(kind: Kind, text: str) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(text, re.MULTILINE)


PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    _as_written("path", rf"{_START_PATH}(/(?:{_HOMES})(?:/[\w.@+-]+)*)"),
    _as_written(
        "path", rf"(?<!/){_START_PATH}(/(?!(?:{_SYSTEM})/)[A-Za-z][\w.@+-]*(?:/[\w.@+-]+)+)"
    ),
    _as_written(
        "path",
        rf"(?<!/){_START_PATH}(/(?:(?:opt|usr/local)/(?!(?:{_INSTALLED}){_VERSION})"
        rf"|dev/shm/(?!{_OF_TOOLS})|dev/(?:mapper|disk/by-[a-z]+)/|run/media/|run/user/(?!\d)"
        r"|usr/home/)[\w.@+-]+(?:/[\w.@+-]+)*)",
    ),
    _as_written("user", rf"{_START}([\w.-]+(?:/[\w.-]+)?@[A-Z][A-Z0-9.-]*[A-Z0-9])(?![\w.-])"),
    _as_written("user", rf"{_START}([\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+){AFTER}"),
    _as_written("user", rf"{_START}([A-Za-z_][\w.-]*)@(?=[\w-])"),
    _as_written("account", r"\barn:aws[\w-]*:[\w-]*:[\w-]*:(\d{12})\b"),
    _as_written("account", r"\b(\d{12})(?=\.dkr\.ecr\.)"),
    _as_written("account", r"(?i:account|owner)\w*[\s\"':=]{1,4}(\d{12})\b"),
    _as_written("account", r"\bprojects/([a-z][a-z0-9-]{4,29})\b"),
    _as_written(
        "id",
        rf"{_START}((?:[a-z]{{1,12}}-(?={_HEX}{{17}}{AFTER})|(?:{_RESOURCES})-){_HEX}{{8,17}}){AFTER}",
    ),
    _all_cases("id", rf"{_START}((?:GPU-)?{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}){AFTER}"),
    _as_written("host", rf"{_START}(ip-\d{{1,3}}(?:-\d{{1,3}}){{3}}(?:\.[\w-]+)*)"),
    _as_written(
        "host",
        rf"{_START}(?<!ip-)(\d{{1,3}}(?:-\d{{1,3}}){{3}}(?:\.(?!(?:{_FILE})\b)[A-Za-z][\w-]*)+)",
    ),
    _as_written(
        "host",
        rf"(?<![A-Za-z0-9.-])(?!{_NUMBER})"
        rf"((?:{_LABEL}\.)+(?:{_INSIDE}){AFTER}|(?:{_LABEL}\.){{2,}}(?:{_DOMAINS})(?![\w-]|\.\w)"
        # One label may be a part of a program: model.net; these are no fields of any.
        rf"|(?:{_LABEL}\.(?:com|edu|gov|mil|org)|[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+\.(?:{_DOMAINS}))"
        r"(?![\w(-]|\.\w))",
    ),
    _as_written("host", r"Pid +\d+ on +(\S+) device"),
)
_WITHOUT_AT = tuple(each for each in PATTERNS if each[0] != "user")
_NAME = r"[\w.$@+-]+"
# Their slashes look like escapes.
_WINDOWS = (
    re.compile(rf"(?<![\\\w])\\{{2,8}}([A-Za-z]{_NAME}(?:\\{{1,4}}{_NAME})+)"),
    re.compile(rf"\b[A-Z]:\\{{1,4}}(?!Windows\b|Program)({_NAME}(?:\\{{1,4}}{_NAME})+)"),
)


def names_in(text: str) -> Iterator[tuple[Kind, str]]:
    """Find what the patterns describe, as it is written and without colours and escapes.

    Yields:
        Each name with its kind; a name may come more than once.

    """
    text = _once(_VALUES.sub(" ", text))
    if "\\" in text:
        plain = re.sub(_COLOUR, " ", text)
        for pattern in _WINDOWS:
            yield from (("path", match[1]) for match in pattern.finditer(plain))
    text = without_escapes(text)
    for kind, pattern in PATTERNS if "@" in text else _WITHOUT_AT:
        yield from ((kind, match[1]) for match in pattern.finditer(text) if is_name(kind, match[1]))
    for pattern in ADDRESSES:
        found = (each for match in pattern.finditer(text) for each in match.groups() if each)
        yield from (("address", each) for each in found)
    yield from told_names(text)


def without_escapes(text: str) -> str:
    """Take out colours, and put blanks in place of the escapes of JSON for them.

    Returns:
        The text, in which no name has the letter of an escape before it.

    """
    return _ESCAPED.sub(lambda match: _BLANKS.get(match[1], " " if match[2] else ""), text)


def _once(text: str) -> str:
    """Leave out lines that were there before; short ones may be a part of a list, and stay."""
    seen: set[str] = set()
    kept = []
    for line in text.split("\n"):
        if len(line) < _LONG or line not in seen:
            kept.append(line)
            seen.add(line)
    return "\n".join(kept)
