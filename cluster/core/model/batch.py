"""What a batch script measures, as the script hands it to the process inside of its job."""

from __future__ import annotations

from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

BATCH = "batch"  # the provider of a run whose hosts a batch system lent to a script


class BatchRequest(Value, frozen=True, kw_only=True):
    """What a batch script measures.

    Args:
        benchmark: its name.
        params: of it, as text.
        starter: of the ranks, such as `srun` or `srun:pmix`.
        hosts: how many.
        ranks_per_host: ranks of each.
        timeout: seconds that the ranks may take.
        name: under which the run is kept.
        describe: what the run is for.

    """

    benchmark: str
    params: dict[str, str] = {}
    starter: str
    hosts: int
    ranks_per_host: int = 1
    timeout: float = 600.0
    name: str = "batch"
    describe: str = ""

    @property
    def spec(self) -> ClusterSpec:
        """The cluster that a run of it records."""
        return ClusterSpec(
            name=self.name, provider=BATCH, hosts=self.hosts, ranks_per_host=self.ranks_per_host
        )
