"""Writing the shards of a dataset where they are asked for, once."""

from pathlib import Path

import msgspec

from cluster.measure.buffers import place_on_host
from cluster.measure.rank import Rank
from cluster.measure.training import digits
from cluster.measure.training.digits import Dataset, Digits
from cluster.measure.training.sources import DiskSource, ShardSource, StoreSource

FOLDER = "data"  # in the job's


def opened(
    rank: Rank, where: str, folder: str, real: Digits, dataset: Dataset
) -> ShardSource | None:
    """Open the place of the data, and write them there unless they are there (ClusterError).

    It is `memory`, `disk` (in `folder`, by default the job's), or the URL of a store.
    """
    if where == "memory":
        return None
    source: ShardSource
    if where == "disk":
        source = DiskSource(Path(folder or FOLDER))
        writes = place_on_host(rank.comm)[0] == 0  # one rank of each host
    else:
        source = StoreSource(where)
        writes = rank.number == 0
    if writes:
        write(source, real, dataset)
    rank.barrier()
    source.requests = source.bytes = 0
    return source


def write(source: ShardSource, real: Digits, dataset: Dataset) -> None:
    """Write the shards of a dataset, and its index last, which makes it complete (ClusterError)."""
    index = msgspec.json.encode(dataset)
    if _index(source) == index:
        return
    for number in range(dataset.shards):
        samples = digits.augmented(real, dataset, number)
        source.write(digits.shard_name(number), digits.encoded(samples))
    source.write(digits.INDEX, index)


def _index(source: ShardSource) -> bytes | None:
    try:
        return source.fetch(digits.INDEX)
    except FileNotFoundError:
        return None
