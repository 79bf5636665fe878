"""Lists of nodes of every shape: Slurm itself expands and folds them."""

import random
from itertools import product
from pathlib import Path

import pytest

from cluster.providers.slurm.client import SlurmClient
from tests.conftest import run, tries
from tests.slurm_here import SlurmHere, slurm_here

__all__ = ["slurm_here"]
SETS = tries(1000)
PREFIXES = ("n", "node", "gpu-", "rack2-n", "a1b", "x-2-")


def numbers(chance: random.Random) -> tuple[str, list[str]]:
    """Make the inside of a bracket, such as `001-003,7`, and what it stands for."""
    parts, values = [], []
    for _ in range(chance.randint(1, 3)):
        first, width = chance.randint(0, 99), chance.choice((1, 2, 4))
        last = first + chance.choice((0, 0, 1, 5, 12))
        names = [f"{number:0{width}}" for number in range(first, last + 1)]
        parts.append(names[0] if first == last else f"{names[0]}-{last:0{width}}")
        values += names
    return ",".join(parts), values


def entry(chance: random.Random) -> tuple[str, list[str]]:
    """Make one entry of a list: a name, a bracket, or two brackets."""
    prefix = chance.choice(PREFIXES)
    shape = chance.choice(("name", "plain", "bracket", "bracket", "two"))
    if shape == "name":
        return prefix.rstrip("-") + "z", [prefix.rstrip("-") + "z"]
    inside, values = numbers(chance)
    if shape == "plain":
        return f"{prefix}{values[0]}", [f"{prefix}{values[0]}"]
    if shape == "bracket":
        return f"{prefix}[{inside}]", [f"{prefix}{number}" for number in values]
    more, suffixes = numbers(chance)
    names = [f"{prefix}{value}m{other}" for value, other in product(values, suffixes)]
    return f"{prefix}[{inside}]m[{more}]", names


def test_lists_of_every_shape_stand_for_the_nodes_that_slurm_says(
    slurm_here: SlurmHere, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of random shapes, 1,000 with --long; each is expanded, and what Slurm folds of it, too.

    The nodes that each list stands for are known from how it was made.
    """
    monkeypatch.setenv("SLURM_CONF", str(slurm_here.conf))
    chance, client, texts = random.Random(18), SlurmClient(), set()
    for _ in range(SETS):
        entries = [entry(chance) for _ in range(chance.randint(1, 4))]
        text, names = ",".join(e for e, _ in entries), [name for _, e in entries for name in e]
        assert list(client.names_in(text)) == names, text
        folded = run("scontrol", "show", "hostlist", ",".join(names)).stdout.strip()
        assert sorted(client.names_in(folded)) == sorted(names), folded
        texts.add(text)
    assert len(texts) > SETS * 0.9
