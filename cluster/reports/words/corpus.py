"""What is wrong with entries of the corpus, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.analysis.limits.published.checks import EntryProblem, ProblemCode

WORDS: dict[ProblemCode, str] = {
    "same_id": "{} entries have this id",
    "same_values": "the same values of the same source as {}",
    "not_in_log": "{:.6g} is not in its log",
    "no_evidence": "it has no evidence",
    "evidence_apart": "{} does not fit, the lowest of its evidence is {:.3f}",
    "no_definition": "no definition {!r} is in definitions.toml",
    "other_unit": "its unit is {!r}, and its definition's is one of: {}",
    "unknown_hardware": "{}",
    "ranks_below_hosts": "{} ranks on {} hosts",
    "too_many_ranks": "{} ranks, and {} hosts have {} GPUs each",
    "no_address": "its source is no address that a reader can open",
    "no_commit": "its source has a path, and no commit",
    "no_log": "grade A needs the lines of the log",
    "no_author": "grade B needs an author and versions",
    "reason_or_grade": "a reason is for grade X, and grade X needs one",
    "no_line": "it does not say in which line of its path its values are",
    "no_versions": "it has no versions; where its source has none, they are {!r}",
    "no_date": "its date is no YYYY-MM-DD, and not {!r}",
    "no_values": "{} has no values, or some that are not above 0",
    "above_limit": "{} is {:.2f} of its limit: grade X, with the reason",
    "too_short": "{} is too short between hosts: grade X, with the reason",
    "no_points": "it has no points",
}


def entry_problem_words(problem: EntryProblem) -> str:
    return f"{problem.id}: {WORDS[problem.code].format(*problem.figures)}"
