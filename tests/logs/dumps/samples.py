"""A dump of each format, as text, and a pickle that would run a command."""

import os
from pathlib import Path

DUMPS = Path(__file__).parent
RAS = b"""{"nccl_version": "2.28.9", "timestamp": "2026-11-26T10:00:00", "communicators": [
 {"hash": "0x1", "size": 2, "ranks": [
  {"rank": 0, "host": "n0", "pid": 10, "cuda_dev": 0, "collective_counts": {"AllReduce": 5}}],
  "missing_ranks": [{"rank": 1, "host": "n1", "pid": 20, "cuda_dev": 0,
   "status": {"considered_dead": true}}]}]}"""
INSPECTOR = b"""{"header":{"id":"0xa","rank":3,"n_ranks":4},"metadata":\
{"inspector_output_format_version":"v4.0","dump_timestamp_us":1790000000000000,"hostname":"n0",\
"pid":5},"coll_perf":{"coll":"AllReduce","coll_sn":41}}
{"header":{"id":"0xa","rank":3"""
RAS_TEXT = (DUMPS / "ras.txt").read_text()
RAS_OLD = RAS_TEXT.replace("2.26.2", "2.24.3").replace(
    "AllReduce operation", "collective operation"
)
FAULT_HANDLER = b"""\
Thread 0x00007f97 [loader] (most recent call first):
  File "/job/loader.py", line 5 in read

Current thread 0x00007f98 (most recent call first):
  File "/job/train.py", line 12 in main
"""
PY_SPY = (DUMPS / "py_spy.txt").read_bytes()


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, ("touch pickle-was-run",)


HOSTILE = {"version": "2.10", "pg_config": Hostile()}
