"""The public address of this machine as a cloud sees it: by default, SSH is open to it alone."""

from __future__ import annotations

import ipaddress
import os
import urllib.error
import urllib.request

from cluster.core.errors import SpecError

ASKED = "https://checkip.amazonaws.com"  # answers with the caller's address, and nothing else
SECONDS = 5.0  # for the answer
LONGEST = 64  # bytes to read of the answer; an address is shorter


def allowed_network(given: str, *, jump: str = "") -> str:
    """Return the network that may connect to the hosts by SSH.

    Args:
        given: a network, such as `192.0.2.0/24`, or an address; this machine's alone, if empty.
        jump: jump hosts; connections then come from the last of them, not from this machine.

    Raises:
        SpecError: `given` is not a network, or the address of this machine cannot be found out.

    """
    if jump and not given:
        raise SpecError(
            f"--option jump={jump} needs --option allow=ADDRESS.",
            means="The machines see the last host on the way, and its address there is not known.",
            remedy="Write its private address, or its network: --option allow=10.0.0.0/16",
        )
    if not given:
        return f"{_own()}/32"
    try:
        return str(ipaddress.IPv4Network(given))
    except ValueError as error:
        raise SpecError(
            f"--option allow={given} is not a network: {error}.",
            remedy="Write an address or a network: --option allow=192.0.2.0/24",
        ) from error


def _own() -> str:
    url = os.environ.get("CLUSTER_CHECKIP", ASKED)
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - http or https
            return str(ipaddress.IPv4Address(answer.read(LONGEST).decode().strip()))
    except (OSError, ValueError) as error:
        why = error.reason if isinstance(error, urllib.error.URLError) else error
        raise SpecError(
            f"{url} did not tell our own address: {why}.",
            means="SSH is opened to that address only, and to nobody else.",
            remedy="Specify the network that may connect: --option allow=ADDRESS/32",
        ) from error
