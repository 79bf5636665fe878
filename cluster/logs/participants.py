"""On how many hosts the ranks of a log ran, by what launchers and batch systems print."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cluster.logs.hosts import listed

_MARKS = ("NODELIST", "odelist", "Data for node", "ank ", "NODEFILE")
# Each line of a list of ranks names one host; the list of a batch system names all at once.
_LIST = re.compile(
    r"\b(?:SLURM_(?:JOB_|STEP_)?NODELIST|SLURM_NODELIST|[Nn]ode ?[Ll]ist)\b['\"]?\s?[=:]\s{0,4}"
    r"['\"]?([\w.,\[\]-]{1,1000})"
)
_RANK = re.compile(
    r"^(?:[ \t]*+Data for node: (\S{1,100})\s.{0,80}Num procs: [1-9]"
    r"|\[([\w.-]{1,100}):\d+\] (?:MCW )?[Rr]ank \d+ (?:is )?(?:not )?bound\b"
    r"|[ \t]*+#?[ \t]*+(?:MPI )?[Rr]ank:? ++\d++(?: (?:of|/) *+\d++)?,? *+(?:is |running )?on "
    r"(?:host |node )?([\w.-]{1,100})[ \t]*$)",
    re.MULTILINE,
)


class _NamedHosts(NamedTuple):
    line: int
    hosts: tuple[str, ...]
    is_whole: bool  # it names all hosts, and no other line adds one


class Participants:
    """Collects the hosts that lines of a log name as those of its ranks."""

    def __init__(self) -> None:
        self._mentions: list[_NamedHosts] = []
        self._lines: set[int] = set()  # of them

    def scan(self, text: str, first: int) -> None:
        if not any(mark in text for mark in _MARKS):
            return
        at, line, mentions = 0, first, []
        for pattern in (_LIST, _RANK):
            at, line = 0, first
            for match in pattern.finditer(text):
                line, at = line + text.count("\n", at, match.start()), match.start()
                name = next(filter(None, match.groups()))
                whole = pattern is _LIST
                mentions.append(_NamedHosts(line, tuple(listed(name)) if whole else (name,), whole))
        self._mentions += sorted(mentions)
        self._lines.update(mention.line for mention in mentions)

    def names_at(self, line: int) -> bool:
        return line in self._lines

    def count(self, firsts: Sequence[int]) -> list[tuple[int, bool]]:
        """Return on how many hosts each result ran, by their first lines; 0 if no line says so.

        A list of ranks is of the result that follows; the hosts of a job are of all its results,
        whose ranks may be on fewer: each has also whether these are only the hosts of the job.
        """
        starts = sorted(set(firsts))
        lists: dict[int, set[str]] = {}  # by the result that follows, or the last one
        whole: list[_NamedHosts] = [mention for mention in self._mentions if mention.is_whole]
        for mention in self._mentions:
            if not mention.is_whole:
                at = min(bisect_right(starts, mention.line - 1), len(starts) - 1)
                lists.setdefault(at, set()).update(mention.hosts)
        of_ranks = (len(_last(lists, bisect_right(starts, first) - 1)) for first in firsts)
        of_job = len(_of_job(whole))
        return [(named or of_job, not named) for named in of_ranks]


def _last(lists: dict[int, set[str]], at: int) -> set[str]:
    """Return the hosts of the list before a result, which several results may follow."""
    return lists[max(earlier)] if (earlier := [key for key in lists if key <= at]) else set()


def _of_job(whole: Iterable[_NamedHosts]) -> set[str]:
    """Return the hosts of the job; none if there are several jobs of other hosts."""
    jobs = {mention.hosts for mention in whole}
    return set(next(iter(jobs))) if len(jobs) == 1 else set()
