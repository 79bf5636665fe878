"""What cloud-init does with user data, as far as it is used here; the rest is a gap."""

import base64
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from cluster.core.model.value import Value
from tests.fakes.gaps import GapError

KNOWN = {
    "bootcmd",
    "disable_root",
    "fqdn",
    "hostname",
    "manage_etc_hosts",
    "package_update",
    "package_upgrade",
    "power_state",
    "preserve_hostname",
    "prefer_fqdn_over_hostname",
    "runcmd",
    "ssh_authorized_keys",
    "ssh_deletekeys",
    "ssh_genkeytypes",
    "ssh_keys",
    "ssh_pwauth",
    "write_files",
}


class File(Value, frozen=True, kw_only=True):
    """A file to write on a host; owners other than root are a gap."""

    path: str
    text: str
    mode: int = 0o644


class Orders(Value, frozen=True, kw_only=True):
    """What a host is told to be."""

    hostname: str = ""  # empty, if the cloud may choose
    # the host's own keys: private and public, by type such as `ed25519`
    keys: Mapping[str, tuple[str, str]] = {}
    authorized: tuple[str, ...] = ()  # public keys that may log in as the default user
    files: tuple[File, ...] = ()  # to write
    early: str = ""  # a shell script that runs at each boot, before sshd
    late: str = ""  # a shell script that runs once, when all else is done
    trouble: str = ""  # what cloud-init says of user data that it cannot read


def orders(encoded: str) -> Orders:
    """Read user data."""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except UnicodeDecodeError as error:
        raise GapError("user data that is not text") from error
    return orders_of(text)


def orders_of(text: str) -> Orders:
    """Read user data that is a text."""
    if not text.strip():
        return Orders()
    if text.startswith("#!"):
        return Orders(late=text)
    if not text.startswith("#cloud-config"):
        raise GapError(f"user data that begins with {text[:40]!r}")
    return _configured(text)


def _configured(text: str) -> Orders:
    try:
        config = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        return Orders(trouble=f"Failed loading yaml blob. {error}")
    if not isinstance(config, dict):
        return Orders(trouble="Failed loading yaml blob. Yaml load allows (<class 'dict'>,) roots")
    if extras := set(config) - KNOWN:
        raise GapError(f"cloud-config with {', '.join(sorted(extras))}")
    if config.get("package_update") or config.get("package_upgrade"):
        raise GapError("cloud-config that updates packages: hosts reach no package index")
    return _ordered(config)


def _ordered(config: dict[str, Any]) -> Orders:
    late = _script(config.get("runcmd", [])) + _power(config.get("power_state"))
    return Orders(
        hostname=str(config.get("hostname") or config.get("fqdn", "")).partition(".")[0],
        keys=_keys(config.get("ssh_keys", {})),
        authorized=tuple(config.get("ssh_authorized_keys", [])),
        files=tuple(_file(entry) for entry in config.get("write_files", [])),
        early=_script(config.get("bootcmd", [])),
        late=late,
    )


def _keys(texts: dict[str, str]) -> dict[str, tuple[str, str]]:
    kinds = {name.rpartition("_")[0] for name in texts}
    return {k: (texts[f"{k}_private"], texts.get(f"{k}_public", "")) for k in sorted(kinds)}


def _file(entry: dict[str, Any]) -> File:
    if extras := set(entry) - {"path", "content", "permissions", "owner", "encoding"}:
        raise GapError(f"write_files with {', '.join(sorted(extras))}")
    if entry.get("owner", "root:root") not in ("root", "root:root"):
        raise GapError(f"write_files for {entry['owner']}")
    text = entry.get("content", "")
    encoding = entry.get("encoding", "text/plain")
    if encoding in ("b64", "base64"):
        text = base64.b64decode(text).decode()
    elif encoding != "text/plain":
        raise GapError(f"write_files encoded as {encoding}")
    return File(path=entry["path"], text=text, mode=int(str(entry.get("permissions", "0644")), 8))


def _script(commands: list[Any]) -> str:
    lines = [c if isinstance(c, str) else shlex.join(map(str, c)) for c in commands]
    return "#!/bin/sh\n" + "".join(f"{line}\n" for line in lines) if lines else ""


def _power(state: dict[str, Any] | None) -> str:
    if not state:
        return ""
    if state.get("mode", "poweroff") not in ("poweroff", "halt"):
        raise GapError(f"power_state {state}")
    delay = str(state.get("delay", "now"))
    return f"shutdown -P {delay if delay == 'now' or delay.startswith('+') else '+' + delay}\n"
