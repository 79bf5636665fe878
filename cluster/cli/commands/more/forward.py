"""Bring a port of a host to this machine, until Ctrl-C.

It is open at the loopback address only.

Example: cluster more forward mine 8888
"""

from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.show import print_lines
from cluster.core.errors import SpecError
from cluster.orchestration.cluster import attach


def command(
    name: flags.ClusterName,
    ports: Annotated[str, argument("PORT[:LOCAL]", "Port there, and here if it differs.")],
    *,
    host: Annotated[
        str, option("--host H", "A host, by its name or number; the first, by default.")
    ] = "0",
) -> None:
    port, colon, local = ports.partition(":")
    if not port.isdecimal() or (colon and not local.isdecimal()):
        raise SpecError(f"{ports!r} names no port.", remedy="Write 8888, or 8888:9999.")
    cluster = attach(name)
    (target,) = cluster.hosts[host][:1]
    with cluster.forward(int(port), int(local or 0), host=target) as forward:
        print_lines(f"http://{forward.address} is port {port} of {target.name}, until Ctrl-C here.")
        forward.wait()
