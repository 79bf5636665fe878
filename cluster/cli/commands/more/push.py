"""Copy a run into an object store, if it has no secret.

Example: cluster more push s3://bucket/prefix latest
"""

import sys
from typing import Annotated

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.runs import object_store, store


def command(
    url: Annotated[str, argument("URL", "Object store: s3://bucket/prefix.")],
    run: flags.Run = "latest",
    root: flags.Runs = None,
) -> None:
    address = object_store.push(store.find(store.root(root), run), url)
    sys.stdout.write(f"Kept: {address}\n")
