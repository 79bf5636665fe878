"""Definitions of metrics, a row of words for each."""

import re
from textwrap import dedent
from typing import get_args

from cluster.core import decoders
from cluster.core.model.measurements import Aggregation, Definition, Flow, Medium

_FIELDS = {  # of a definition, by the words that it may have
    **dict.fromkeys(get_args(Aggregation), "aggregation"),
    **dict.fromkeys(get_args(Flow), "flow"),
    **dict.fromkeys(get_args(Medium), "medium"),
    "lower": "better",
}


def define(
    benchmark: str,
    rows: str,
    *,
    clock: str,
    synchronisation: str,
    warm_up: str,
    aggregation: Aggregation = "one rank",
) -> tuple[Definition, ...]:
    """Return the definitions of a tool's metrics, of which each row says what is special.

    Args:
        rows: such as `bandwidth (B/s, one way, network): bytes over the time`, with the unit, and
            then the aggregation, flow and medium where they are not the default. Of times (s), low
            values are better, and of all else, high ones, unless the row says `lower`. What
            follows below a row, further to the right, belongs to it.
    """
    common = {"benchmark": benchmark, "clock": clock, "synchronisation": synchronisation}
    common |= {"warm_up": warm_up, "aggregation": aggregation}
    joined = dedent(rows).strip().replace("\n    ", " ")
    return tuple(_definition(row, common) for row in joined.split("\n"))


def _definition(row: str, common: dict[str, str]) -> Definition:
    metric, about, meaning = re.split(r" \((.*?)\): ", row, maxsplit=1)
    unit, *words = about.split(", ")
    special = {"better": "lower" if unit == "s" else "higher"}
    special |= {_FIELDS[word]: word for word in words}
    fields = {**common, **special, "metric": metric, "unit": unit, "what": meaning}
    return decoders.convert(fields, Definition)
