"""A dump of each format, as text, and a pickle that would run a command."""

import os

RAS = b"""{"nccl_version": "2.28.9", "timestamp": "2026-11-26T10:00:00", "communicators": [
 {"hash": "0x1", "size": 2, "ranks": [
  {"rank": 0, "host": "n0", "pid": 10, "cuda_dev": 0, "collective_counts": {"AllReduce": 5}}],
  "missing_ranks": [{"rank": 1, "host": "n1", "pid": 20, "cuda_dev": 0,
   "status": {"considered_dead": true}}]}]}"""
INSPECTOR = b"""{"header":{"id":"0xa","rank":3,"n_ranks":4},"metadata":\
{"inspector_output_format_version":"v4.0","dump_timestamp_us":1790000000000000,"hostname":"n0",\
"pid":5},"coll_perf":{"coll":"AllReduce","coll_sn":41}}
{"header":{"id":"0xa","rank":3"""
RAS_TEXT = """\
NCCL version 2.26.2 compiled with CUDA 12.8
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH

Warnings
========

#0-0 (00c0ffee00c0ffee) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 812
  1 rank has launched up to operation 811
  Rank 5 -- GPU 1 managed by process 4242 on node 10.0.0.7
"""
RAS_OLD = RAS_TEXT.replace("2.26.2", "2.24.3").replace(
    "AllReduce operation", "collective operation"
)
FAULT_HANDLER = b"""\
Thread 0x00007f97 [loader] (most recent call first):
  File "/job/loader.py", line 5 in read

Current thread 0x00007f98 (most recent call first):
  File "/job/train.py", line 12 in main
"""
PY_SPY = b"""Process 4711: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    Connection._recv_bytes (/usr/lib/python3.11/multiprocessing/connection.py:395)
    _BaseDataLoaderIter.__next__ (/x/site-packages/torch/utils/data/dataloader.py:701)
    main (/job/train.py:7)
Thread 4712 (idle): "pin"
    select (selectors.py:415)
"""


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, ("touch pickle-was-run",)


HOSTILE = {"version": "2.10", "pg_config": Hostile()}
