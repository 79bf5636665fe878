"""Parsers of OpenSSH's files: known_hosts, and `Include` in the client's configuration."""

import base64
import functools
import hashlib
import hmac
import re
import shlex
from pathlib import Path
from typing import NamedTuple

REVOKED = "@revoked"
DEEPEST = 16  # levels of files that include others
SALTED = "|1|"  # prefix of a hashed host name (`HashKnownHosts`)


class KnownKey(NamedTuple):
    marker: str  # `@revoked`, `@cert-authority` or nothing
    names: str
    kind: str  # type of the key, such as `ssh-ed25519`
    key: str  # in base64


def matching(text: str, name: str) -> list[KnownKey]:
    """Return the valid keys of a name, `[name]:port` unless it is 22, in a known_hosts file."""
    return [line for line in _lines(text) if _is_one_of(line.names, name.lower())]


def entry(name: str, port: int) -> str:
    """Return the name under which a host's key is kept: alone for port 22."""
    return name if port == 22 else f"[{name}]:{port}"  # noqa: PLR2004 - the port of SSH


@functools.lru_cache(maxsize=16)  # many hosts are looked up in the same few files
def _lines(text: str) -> tuple[KnownKey, ...]:
    lines = []
    for row in text.splitlines():
        words = row.split()
        marker = words.pop(0) if row.lstrip().startswith("@") else ""
        if len(words) > 2 and not words[0].startswith("#"):  # noqa: PLR2004 - names, kind, key
            lines.append(KnownKey(marker, *words[:3]))
    return tuple(lines)


def _is_one_of(names: str, name: str) -> bool:
    """Return whether a pattern matches a host; one after `!` excludes it."""
    if names.startswith(SALTED):
        try:
            salt, digest = (base64.b64decode(word) for word in names[len(SALTED) :].split("|"))
        except ValueError:
            return False
        return hmac.compare_digest(hmac.digest(salt, name.encode(), hashlib.sha1), digest)
    patterns = names.lower().split(",")
    if any(_fits(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_fits(pattern, name) for pattern in patterns)


def _fits(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name) is not None


def settings(path: Path, section: str = "Host *", depth: int = 0) -> str:
    """Return the text of a settings file, with the included files in place of `Include`.

    As in ssh, lines after an `Include` belong to the section around it, and a section of an
    included file applies only where that section does. Empty if there is no file.
    """
    outer = section
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    text = [section]
    for line in lines:
        key, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if key.lower() in ("host", "match"):
            line = section = _within(outer, line)  # noqa: PLW2901 - it replaces the line
        if key.lower() == "include" and depth < DEEPEST:
            text += [settings(file, section, depth + 1) for file in _find_files(value, path)]
            text.append(section)
        else:
            text.append(line)
    return "\n".join(text) + "\n"


def _within(enclosing: str, section: str) -> str:
    """Return the line of a section in an included file: the section around it must match, too."""
    outer, inner = _criteria(enclosing), _criteria(section)
    if outer == "all":
        return section
    return enclosing if inner == "all" else f"Match {outer} {inner}"


def _criteria(section: str) -> str:
    """Return the criteria of a line `Host` or `Match`, as `Match` writes them."""
    key, _, value = section.strip().replace("=", " ", 1).partition(" ")
    if key.lower() == "match":
        return value.strip()
    patterns = value.split()
    return "all" if patterns == ["*"] else f"originalhost {','.join(patterns)}"


def _find_files(value: str, source: Path) -> list[Path]:
    root = source.parent if source.parent.name == "ssh" else Path("~/.ssh").expanduser()
    files = []
    for word in shlex.split(value):
        pattern = root / Path(word).expanduser()
        files += sorted(Path("/").glob(str(pattern.relative_to("/"))))
    return files
