"""Words that name nobody: those of cluster's own sources, numbers and models of hardware.

A text of a shared run is let through word by word. A word that is none of these is left out,
whatever it is, so nobody has to recognise the name of a host, a user or a project.
"""

import functools
import re
from pathlib import Path

GONE = "…"  # stands for a word that was left out
_PACKAGE = Path(__file__).parents[2]
_SOURCES = (_PACKAGE, (_PACKAGE / "benchmarks").resolve())  # in a checkout, a link
_LETTERS = re.compile(r"[A-Za-z]{2,}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of hosts, users and sites, in examples and at the ends of addresses.
_NAMES = _words(
    """
    alice bastion bob carol cn com corp de dgx edu example gov head home host hosts id
    internal io ip jump lan local localhost login mars me mil mine net node nodes org prod
    rack root secret site test1 tmp user username users venus vm worker workers
    """
)
# Before a number, these name no host.
_LOWER = _words(
    """
    amd arm bf bond btl cuda deb enp ens eth ext ffs float fp hfi hsn ib ibp int iperf irdma lo
    mlx mpi nvme p read roce rocep rocm sm tcp uint usnic v write x xfs
    """
)
# Of processors and systems, which the sources do not have.
_MORE = _words(
    """
    almalinux altra ampere aws bookworm bronze bullseye centos cortex enterprise fedora
    focal gcp gold graviton hat jammy leap lts neoverse noble platinum red rocky ryzen
    server silver sles suse threadripper trixie
    """
)
_SPECIAL = _words("d2d d2h h2d k8s mpi4py mpi_test p2p pt2pt x86")
# In an identifier such as `host_to_device`; no host has a `_` in its name.
_TECHNICAL = _words("host hosts id io ip local net node nodes")
_IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")
_NUMBER = re.compile(r"[vV]?[-+]?\d{1,7}(?:\.\d{1,6}){0,2}(?:e[-+]?\d{1,3})?[%A-Za-z]{0,3}\d{0,2}")
_MODEL = re.compile(r"[A-Z]{1,4}\d{1,5}[A-Za-z]{0,3}\d{0,2}")  # H100, MI210, SXM4, GPU0
_MIXED = re.compile(r"([a-z]+)\d{1,3}(?:[a-z]{1,3}\d{0,3}){0,3}")  # mlx5, eth0, nvme0n1
_EDGES = "()[]{}<>,;:!?'\"|"
_PARTS = re.compile(r"[-_+=:,()\[\]@/&*]")
_PATH = re.compile(r"^[/~.]|//|/$|\\|@|/.*/.*/")
_ADDRESS = re.compile(r"\d+(?:\.\d+){3}|\d+(?:[-_]\d+){3}|:.*:")
_MOST_DIGITS = 7  # an account of a cloud has twelve


def is_plain(text: str) -> bool:
    return all(map(_is_plain_word, text.split()))


def plain(text: str) -> str:
    """Return a text without the words that might name somebody."""
    return " ".join(word if _is_plain_word(word) else GONE for word in text.split())


def _is_plain_word(word: str) -> bool:
    core = word.strip(_EDGES).removesuffix(".")
    if not core or core in "-=+/&*%@":
        return word.isascii() and word.isprintable()
    if not core.isascii() or _PATH.search(core) or _ADDRESS.search(core):
        return False
    parts = [part for part in _PARTS.split(core) if part]
    if _IDENTIFIER.fullmatch(core):
        parts = [part for part in parts if part not in _TECHNICAL]
    if not all(map(_is_plain_part, parts)):
        return False
    # Names of hosts end in a number: dgx-03, a100-2.
    is_like_host = core[0].islower() and "-" in core and core[-1].isdigit()
    return not is_like_host


def _is_plain_part(part: str) -> bool:
    if part in _SPECIAL or _NUMBER.fullmatch(part) or _MODEL.fullmatch(part):
        return True
    if mixed := _MIXED.fullmatch(part):
        return mixed[1] in _LOWER
    return all(_is_known(each) for each in part.split("."))


def _is_known(word: str) -> bool:
    if word.isdigit():
        return len(word) <= _MOST_DIGITS
    stem, lower = word.rstrip("0123456789"), word.lower()
    if stem != word:
        return stem.lower() in _LOWER
    return word.isalpha() and lower not in _NAMES and (len(word) == 1 or lower in _vocabulary())


@functools.cache
def _vocabulary() -> frozenset[str]:
    """Return the words of cluster's own sources: 0.2 s."""
    kinds = ("*.py", "*.toml", "*.c")
    files = (path for folder in _SOURCES for kind in kinds for path in folder.rglob(kind))
    texts = (path.read_text(errors="ignore") for path in files)
    return _MORE.union(word.lower() for text in texts for word in _LETTERS.findall(text))
