"""One process on the first host, which asks the others for what it needs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cluster.measure.starters import Starter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.core.model.hosts import Layout


class FirstHost(Starter):
    """Starts the program once, and tells it where the other hosts are.

    No MPI stands between hosts, so that one which dies or hangs takes no other with it.
    """

    needs_every_host: ClassVar[bool] = False

    def argv(self, program: Sequence[str], layout: Layout) -> list[str]:
        """Give the program, behind the words that tell it of the hosts."""
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
