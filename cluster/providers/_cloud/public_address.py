"""The public address of this machine as a cloud sees it: by default, SSH is open to it alone."""

import errno
import ipaddress
import os
import urllib.error
import urllib.request

from cluster.core.errors import SpecError

ASKED = "https://checkip.amazonaws.com"  # answers with the caller's address, and nothing else
IPV6 = 6
ONLY_IPV4 = "The machines have IPv4 addresses only."
MANY = 8  # bits of the prefix of a network with so many addresses that it deserves a warning
SECONDS = 5.0  # for the answer
LONGEST = 64  # bytes to read of the answer; an address is shorter


def allowed_network(network_or_address: str, *, jump: str = "") -> str:
    """Return the network that may connect to the hosts by SSH (SpecError: none is known).

    It is a network or an address; empty, it is this machine's alone. With jump hosts,
    connections come from the last of them, so that it must be given.
    """
    if jump and not network_or_address:
        raise SpecError(
            f"--option jump={jump} needs --option allow=ADDRESS.",
            means="The machines see the last host on the way, and its address there is not known.",
            remedy="Write its private address, or its network: --option allow=10.0.0.0/16",
        )
    if not network_or_address:
        return f"{_ask_address()}/32"
    try:
        network = ipaddress.ip_network(network_or_address)
    except ValueError as error:
        raise SpecError(
            f"--option allow={network_or_address} is not a network: {error}.",
            remedy="Write an address or a network: --option allow=192.0.2.0/24",
        ) from error
    if network.version == IPV6:
        raise SpecError(
            f"--option allow={network_or_address} is a network of IPv6 addresses.",
            means=ONLY_IPV4,
            remedy="Write an IPv4 network: --option allow=192.0.2.0/24",
        )
    return str(network)


def open_lines(allow: str) -> tuple[str, ...]:
    """Return a warning for the plan if very many addresses of the Internet may connect."""
    network = ipaddress.IPv4Network(allow)
    if network.prefixlen > MANY or network.is_private:
        return ()
    whole = (
        "the whole Internet" if network.prefixlen == 0 else f"{network.num_addresses:,} addresses"
    )
    return (
        (
            f"WARNING: {whole} may connect to port 22 of the machines (--option allow={allow}); "
            "leave it out, and only this machine's own address may"
        ),
    )


def _ask_address() -> str:
    url = os.environ.get("CLUSTER_CHECKIP", ASKED)
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - http or https
            address = ipaddress.ip_address(answer.read(LONGEST).decode().strip())
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if getattr(reason, "errno", None) == errno.ENETUNREACH:
            raise _ipv6_only(f"This machine has no route to {url} by IPv4.") from error
        raise SpecError(
            f"{url} did not tell our own address: {reason}.",
            means="SSH is opened to that address only, and to nobody else.",
            remedy="Specify the network that may connect: --option allow=ADDRESS/32",
        ) from error
    if address.version == IPV6:
        raise _ipv6_only(f"This machine reaches the Internet by IPv6 only: {address}.")
    return str(address)


def _ipv6_only(message: str) -> SpecError:
    return SpecError(
        message,
        means=f"{ONLY_IPV4} So they could not be reached from here.",
        remedy="Go by a host that has both: --option jump=USER@HOST --option allow=ADDRESS; or "
        "type this on a machine with an IPv4 address.",
    )
