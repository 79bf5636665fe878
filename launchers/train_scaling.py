#!/usr/bin/env python3
"""Train on 1, 2, 4 ... ranks: how much of the speed of one does each rank keep, and why not all?

With --ab KEY=A,B each number of ranks is trained under both conditions, in turn.

Example: python train_scaling.py --ranks 1,2 --provider kubernetes --ab network=pod,host
"""

from functools import partial
from typing import Annotated, Any, Literal

from cluster.cli import flags, start
from cluster.cli.flags import option
from cluster.cli.show import show_tables
from cluster.core.errors import SpecError
from cluster.core.model.resources import Plan
from cluster.core.text.units import parse_rate
from cluster.orchestration.ab_test import PLAIN, trials
from cluster.orchestration.ab_test import ab as compare
from cluster.orchestration.launch.launch import launch_spec
from cluster.reports.training_table import conditions_table, training_table
from cluster.reports.words.step_limits import limit_of_training

BATCH = 64  # samples of a rank's step


def train_scaling(  # noqa: PLR0913 - each is a flag
    *,
    ranks: Annotated[str, option("--ranks LIST", "Of each run.")] = "1,2,4",
    ranks_per_host: Annotated[int, option("--ranks-per-host N")] = 1,
    provider: Annotated[str, option("--provider NAME")] = "local",
    option: Annotated[list[str] | None, option("--option KEY=VALUE")] = None,
    source: Annotated[str, option("--source", "memory, disk, s3://...")] = "memory",
    device: Annotated[Literal["cpu", "cuda"], option("--device", "cuda: by nccl.")] = "cpu",
    rounds: Annotated[int, option("--rounds N")] = 8,
    link: Annotated[str, option("--link RATE", "Of a host: 10gbit.")] = "",
    ab: flags.Ab = None,
    launches: Annotated[int, option("--launches N", "Of each value of --ab.")] = 5,
    env: Annotated[list[str] | None, option("--env NAME=VALUE")] = None,
    name: flags.Name = "train",
    yes: flags.Yes = False,
) -> None:
    """Train on 1, 2, 4 ... ranks: how much of the speed of one does each rank keep, and why not?

    Example: python train_scaling.py --ranks 1,2 --provider local
    """
    counts = sorted({int(word) for word in ranks.split(",") if word.strip().isdecimal()})
    if not counts or len(counts) != len(ranks.split(",")) or counts[0] < 1:
        raise SpecError(f"--ranks is {ranks!r}.", remedy="Such as: --ranks 1,2,4")
    variables = dict(flags.pair("--env", words) for words in env or ())
    pair = trials(ab, "training", provider) if ab else (PLAIN, PLAIN)
    options = [*(option or ()), *(f"{key}={value}" for key, value in pair[0].options.items())]
    results, comparisons = {}, {}
    for count in counts:
        most = min(ranks_per_host, count)
        spec = flags.spec(name=f"{name}-{count}", provider=provider, options=options,
                          hosts=-(-count // most), ranks_per_host=most)  # fmt: skip
        how: dict[str, Any] = {"source": source, "device": device, "rounds": rounds, "batch": BATCH}
        how |= {"env": variables, "describe": f"training on {count} ranks of {counts}"}
        with launch_spec(spec, confirm=partial(_refuse_cost, yes=yes)) as cluster:
            if ab:
                (key, _, first), (_, _, second) = (trial.name.partition("=") for trial in pair)
                comparisons[count] = compare(
                    cluster, "training", key, (first, second), launches=launches, **how
                )
                continue
            run = cluster.bench.training(**how)
        training = run.training()
        results[count] = (run.summary(), limit_of_training(training) if training else "")
    if ab:
        show_tables([conditions_table(comparisons)], "terminal")
        return
    table = training_table(results, BATCH, parse_rate(link) if link else None, ranks_per_host)
    show_tables([table], "terminal")


def _refuse_cost(plan: Plan, *, yes: bool) -> None:
    if plan.costs and not yes:
        raise SpecError("\n".join(plan.lines), remedy="If it may cost that: --yes")


if __name__ == "__main__":
    start(train_scaling)
