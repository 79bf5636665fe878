"""What a batch script measures, as the script hands it to the process inside of its job."""

from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

BATCH = "batch"  # the provider of a run whose hosts a batch system lent to a script


class BatchRequest(Value, frozen=True, kw_only=True):
    """What a batch script measures."""

    benchmark: str  # its name
    params: dict[str, str] = {}  # of it, as text
    starter: str  # of the ranks, such as `srun` or `srun:pmix`
    hosts: int  # how many
    ranks_per_host: int = 1  # ranks of each
    timeout: float = 600.0  # seconds that the ranks may take
    name: str = "batch"  # under which the run is kept
    describe: str = ""  # what the run is for

    @property
    def spec(self) -> ClusterSpec:
        """The cluster that a run of it records."""
        return ClusterSpec(
            name=self.name, provider=BATCH, hosts=self.hosts, ranks_per_host=self.ranks_per_host
        )
