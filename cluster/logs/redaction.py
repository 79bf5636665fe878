"""Secrets taken out of text that comes from elsewhere; everything else stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.logs.text import as_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GONE = "[redacted]"

_NAMES = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?"
    r"|secret[_-]?(?:access[_-]?)?key|private[_-]?key|account[_-]?key|auth[_-]?key"
    r"|(?:encryption|signing|license|master|session|ssh)[_-]?key|credentials?|user_name)"
)
# NAME=, "name": or name: of a secret; the name may have anything before it.
_NAMED = rf"(?<![A-Za-z0-9])[\w.-]{{0,60}}?{_NAMES}\\?[\"']?[ \t]*[:=][ \t]*"
_FIGURE = r"(?:\d{1,9}(?:\.\d+)?(?:e[+-]?\d+)?(?:[^\w.+/=-]|$))"  # `ms/token: 23.1` is no secret
_RULES = (
    re.compile(rf"(?P<kept>{_NAMED}\")(?!\[redacted\])(?:[^\"\\]|\\.)+(?=\")", re.IGNORECASE),
    re.compile(rf"(?P<kept>{_NAMED}')(?!\[redacted\])[^']+(?=')", re.IGNORECASE),
    re.compile(
        rf"(?P<kept>{_NAMED}(?:\\?[\"'])?)(?!\[redacted\])(?!(?<=token[:=] ){_FIGURE})"
        rf"(?!(?<=token[:=]){_FIGURE})[^\s\"',;]+",
        re.IGNORECASE,
    ),
    re.compile(rf"(?P<kept>(?<!\w)--?[\w-]{{0,40}}{_NAMES}[ \t]+)(?!-)[^\s\"']+", re.IGNORECASE),
    re.compile(r"(?P<kept>\b(?:docker|podman|nerdctl) login\b.{0,200}?[ \t]-p[ \t]*)[^\s\"']+"),
    re.compile(r"(?P<kept>\bsshpass[ \t]+-p[ \t]*)[^\s\"']+"),
    re.compile(r"(?P<kept>\bcurl\b.{0,200}?[ \t](?:-u|--user)[ \t]+[^\s:]{1,100}:)[^\s\"']+"),
    re.compile(r"(?P<kept>[?&](?:X-Amz-Signature|sig)=)[\w%+/=-]{8,}"),  # of an address
    re.compile(r"(?P<kept>\b(?:Bearer|Basic)[ \t]+)[A-Za-z0-9+/=._~-]{8,}"),
    re.compile(r"(?P<kept>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:)[^\s:/@]{1,200}(?=@)"),
    re.compile(r"(?P<kept>)\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b"),  # AWS
    re.compile(
        r"(?P<kept>)\b(?:gh[pousr]_|github_pat_|glpat-|hf_|xox[abprs]-|sk-|npm_|nvapi-)[\w-]{16,}"
    ),
    re.compile(r"(?P<kept>)\b(?:AIza[\w-]{35}|ya29\.[\w.-]{20,}|GOOG1[0-9A-Z]{16,})"),  # Google
    re.compile(r"(?P<kept>)\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),  # JSON web tokens
)
# Of these at least one is in whatever fits a rule, in lower case: only such lines are looked at.
_WORDS = (
    *("pass", "pwd", "secret", "token", "key", "credential", "user_name", "bearer", "basic", "://"),
    *("akia", "asia", "aroa", "aida", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat"),
    *("glpat-", "hf_", "xox", "sk-", "npm_", "nvapi-", "aiza", "ya29.", "goog1", "eyj"),
    *("login", "sshpass", "curl", "sig=", "signature="),
)
# Kubernetes has the name of a variable, and its value behind it or on the next line.
_PAIR = re.compile(
    rf"(\bname[\"']?[ \t]*:[ \t]*[\"']?[\w.-]{{0,60}}?{_NAMES}[\w.-]{{0,20}}[\"']?,?\s{{1,80}}"
    r"[\"']?value[\"']?[ \t]*:[ \t]*[\"']?)(?!\[redacted\])[^\s\"']+",
    re.IGNORECASE,
)
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def redact(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Take keys, tokens and passwords out of a log.

    Args:
        chunks: its bytes, in portions of any size.

    Yields:
        The same bytes but for secrets, each of which is `[redacted]` now; lines stay lines. A log
        in UTF-16 becomes one in UTF-8.

    """
    waiting: list[bytes] = []
    inside = False  # a private key
    for chunk in as_utf8(chunks):
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            waiting.append(chunk)
            continue
        text, inside = _clean(b"".join((*waiting, head, newline)), inside=inside)
        yield text
        waiting = [rest]
    if any(waiting):
        yield _clean(b"".join(waiting), inside=inside)[0]


def secret_lines(text: bytes) -> tuple[int, ...]:
    """Find lines that hold a secret.

    Args:
        text: of a file.

    Returns:
        Their numbers, from 1.

    """
    before = b"".join(as_utf8([text])).split(b"\n")
    after = b"".join(redact([text])).split(b"\n")
    pairs = zip(before, after, strict=True)
    return tuple(number for number, (old, new) in enumerate(pairs, 1) if old != new)


def _clean(data: bytes, *, inside: bool) -> tuple[bytes, bool]:
    text = data.decode("latin-1")  # any bytes, and back
    lowered = text.lower()
    words = [word for word in _WORDS if word in lowered]
    if not words and not inside:
        return data, False
    if inside or _BEGIN.search(text):
        text, inside = _without_keys(text, inside=inside)
    if "value" in lowered:
        text = _PAIR.sub(rf"\1{GONE}", text)
    lines = text.split("\n")
    for at, line in enumerate(text.lower().split("\n")):
        if any(word in line for word in words):
            lines[at] = _without_secrets(lines[at])
    return "\n".join(lines).encode("latin-1"), inside


def _without_secrets(line: str) -> str:
    for rule in _RULES:
        line = rule.sub(rf"\g<kept>{GONE}", line)
    return line


def _without_keys(text: str, *, inside: bool) -> tuple[str, bool]:
    """Empty the lines of private keys."""
    lines = []
    for line in text.split("\n"):
        begins = _BEGIN.search(line)
        if begins or inside:
            inside = _END.search(line) is None
            lines.append(GONE if begins else "")
        else:
            lines.append(line)
    return "\n".join(lines), inside
