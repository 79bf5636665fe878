"""Pieces of NCCL's log and of tables of nccl-tests, for the tests of both."""

from cluster.core.model.logs import NcclLog
from cluster.logs.reader import read

HEAD = "h:1:2 [0] NCCL INFO "
RANKS = "".join(
    f"#  Rank  {n} Group  0 Pid  77 on  node-a device  {n} [0x1{n}] NVIDIA A100-SXM4-40GB\n"
    for n in range(4)
)
NEW = "#  size  count  type  redop  root  time algbw busbw #wrong  time algbw busbw #wrong\n"


def log_of(text: str) -> NcclLog:
    """Read the only log of NCCL that a text holds."""
    (detail,) = (r.detail for r in read([text.encode()]).results if r.format == "nccl_log")
    assert isinstance(detail, NcclLog)
    return detail
