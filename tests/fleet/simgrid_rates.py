"""Rates of flows that share links, by SimGrid; run by the Python that Debian's package is for.

Reads cases as JSON (paths: the links of each flow; capacities: of each link, in bytes per second)
and prints the rates of each.
"""

import json
import sys
from typing import TypedDict

from simgrid import Actor, Comm, Engine, Host, LinkInRoute, NetZone, this_actor

SIZE = 10**15  # bytes: no flow ends
AFTER = 1.0  # seconds

CONFIG = (
    *("--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0"),
    *("--cfg=network/bandwidth-factor:1", "--cfg=network/latency-factor:1"),
    *("--cfg=network/weight-S:0", "--log=root.thres:error"),
)


class Case(TypedDict):
    paths: list[list[int]]
    capacities: list[float]


def main() -> None:
    cases = json.load(sys.stdin)
    engine = Engine(["simgrid", *CONFIG])
    root = NetZone.create_full_zone("root")
    rates = [[0.0] * len(case["paths"]) for case in cases]
    for number, case in enumerate(cases):
        _case(root, number, case, rates[number])
    root.seal()
    engine.run()
    json.dump(rates, sys.stdout)


def _case(root: NetZone, number: int, case: Case, rates: list[float]) -> None:
    links = [
        root.create_link(f"l{number}-{k}", rate).set_latency(0).seal()
        for k, rate in enumerate(case["capacities"])
    ]
    pairs = []
    for flow, path in enumerate(case["paths"]):
        ends = [root.create_host(f"{end}{number}-{flow}", 1e9).seal() for end in "ab"]
        way = [LinkInRoute(links[k]) for k in path]
        root.add_route(ends[0].netpoint, ends[1].netpoint, None, None, way, False)
        pairs.append(ends)
    Actor.create(f"case{number}", pairs[0][0], _measure, pairs, rates)


def _measure(pairs: list[list[Host]], rates: list[float]) -> None:
    comms = [Comm.sendto_async(*ends, SIZE) for ends in pairs]
    this_actor.sleep_for(AFTER)
    rates[:] = [(SIZE - comm.remaining) / AFTER for comm in comms]
    for comm in comms:
        comm.cancel()


if __name__ == "__main__":
    main()
