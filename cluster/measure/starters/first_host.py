"""One process, on the first host; it starts what it needs on the others by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cluster.measure.starters import Starter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.hosts import Layout


class FirstHost(Starter):
    """Starts the program once, with the addresses of all hosts.

    It uses no MPI, so that a host that dies or hangs does not end the program on the others.
    """

    needs_every_host: ClassVar[bool] = False

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Give the program, after the options that name the hosts."""
        config = ["--ssh-config", layout.ssh_config] if layout.ssh_config else []
        hosts = ["--hosts", ",".join(layout.places), "--count", str(layout.size)]
        return [
            "python3",
            "-P",
            "-m",
            "cluster.measure.first_host",
            *config,
            *hosts,
            "--",
            *program,
        ]
