"""Sentences on outcomes: each that is used exists, and gets the values that it names."""

import ast
from collections.abc import Iterator
from string import Formatter

from cluster.reports.words.outcomes import OUTCOMES
from tests.test_house import trees


def outcomes_used() -> Iterator[tuple[str, int]]:
    """Return the code of each sentence that is used, and how many values it gets; -1: any."""
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "outcome_words":
                first, *values = node.args
                count = -1 if any(isinstance(v, ast.Starred) for v in values) else len(values)
                choices = (first.body, first.orelse) if isinstance(first, ast.IfExp) else (first,)
                yield from (
                    (choice.value, count)
                    for choice in choices
                    if isinstance(choice, ast.Constant) and isinstance(choice.value, str)
                )


def test_each_sentence_that_is_used_exists_with_its_values() -> None:
    outcomes = set(outcomes_used())
    wrong = {
        code
        for code, count in outcomes
        if code not in OUTCOMES or (count >= 0 and count != len(named_values(OUTCOMES[code])))
    }

    assert len(outcomes) > 30
    assert wrong == set()


def named_values(text: str) -> set[str]:
    """Return the values that a text names, by their places."""
    names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    return {name.partition(".")[0] or str(place) for place, name in enumerate(names)}
