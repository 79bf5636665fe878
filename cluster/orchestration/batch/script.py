"""Batch scripts, as text, for sites that allow nothing else."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cluster.core.errors import SpecError
from cluster.core.model.jobs import BatchRequest
from cluster.core.model.value import Value

MARGIN = 60  # seconds of the job's time that are left to collect what the ranks wrote
MODULE = "cluster.orchestration.batch.job"
TEMPLATES = Path(__file__).with_name("templates")  # "cray" as document 003 of the origin submits
FLAGS = {  # how lines for each system begin, and its flags of a queue and an account
    "slurm": ("#SBATCH", "--partition=", "--account="),
    "pbs": ("#PBS", "-q ", "-A "),
    "cray": ("#COBALT", "-q ", "-A "),
    "lsf": ("#BSUB", "-q ", "-P "),
}


class BatchOptions(Value, frozen=True, kw_only=True):
    """What a batch system needs to know besides what is measured."""

    seconds: int = 1800  # of the whole job
    queue: str = ""  # partition or queue; that of the site, if empty
    account: str = ""  # that pays; the user's own, if empty
    extra: tuple[str, ...] = ()  # more lines for the batch system, with or without its prefix


def shell_script(
    system: str, request: BatchRequest, options: BatchOptions, paths: Mapping[str, str]
) -> str:
    """Write the script for `slurm`, `pbs`, `cray` or `lsf`.

    `paths` are `python`, `runs` and `command`: defaults of the script, and what printed it.
    """
    prefix, queue, account = FLAGS[system]
    minutes, second = divmod(options.seconds, 60)
    header = (
        (TEMPLATES / system)
        .read_text()
        .format(
            benchmark=request.benchmark,
            hosts=request.hosts,
            ranks=request.ranks_per_host,
            all_ranks=request.hosts * request.ranks_per_host,
            clock=f"{minutes // 60:02}:{minutes % 60:02}:{second:02}",
            minutes=-(-options.seconds // 60),
            margin=MARGIN,
        )
    )
    pairs = ((queue, options.queue), (account, options.account))
    lines = [
        header.rstrip(),
        *(f"{prefix} {flag}{value}" for flag, value in pairs if value),
        *(f"{prefix} {line.removeprefix(prefix).lstrip()}" for line in options.extra),
    ]
    return "\n".join(["#!/bin/bash", *lines, _fill("body.sh", request, paths)])


def gate_script(gate: Value, paths: Mapping[str, str]) -> str:
    """Write the script for gates of Slurm; `paths` are those of `shell_script`."""
    return _fill("slurm_gate.sh", gate, paths)


def _fill(template: str, request: Value, paths: Mapping[str, str]) -> str:
    return (
        (TEMPLATES / template)
        .read_text()
        .format(
            command=" ".join(paths["command"].splitlines()),
            python=_default(paths["python"]),
            runs=_default(paths["runs"]),
            request=shlex.quote(msgspec.json.encode(request).decode()),
            module=MODULE,
        )
    )


def _default(path: str) -> str:
    """Quote a path inside a double-quoted `${NAME:-...}`."""
    return re.sub(r'([\\$`"}])', r"\\\1", path)


def ranks_seconds(options: BatchOptions) -> float:
    """Return the seconds left for ranks after those to collect their values (SpecError: none)."""
    if options.seconds <= 2 * MARGIN:
        raise SpecError(
            f"--time is {options.seconds} s; a batch job needs more than {2 * MARGIN} s.",
            means=f"{MARGIN} s of it are kept to collect what the ranks wrote.",
        )
    return float(options.seconds - MARGIN)
