"""Lines that are signs of known problems, from any source: MPI, UCX, CUDA, kernels, `sysctl`.

They contain no measurements, and are not failures by themselves. They are only collected here; the
rules in `analysis/verdict/rules` interpret them.
"""

import re
from collections import Counter
from functools import cache
from importlib import resources

from cluster.core.model.logs import CAUSE, START_UP, Parsed, Symptom, Symptoms
from cluster.logs.parsers import Parser, ResultBuilder

MOST = 3  # of a kind that are kept
WIDTH = 1024  # characters before and behind a word that are looked at
QUIET = tuple(kind for kind in START_UP if kind not in ("shm", "memlock"))
_INFORMS = re.compile(r"NCCL INFO|\b(?:INFO|DEBUG|WARNING|[Ww]arning|[Dd]eprecat)|\b0 errors?\b")
_DIGIT = re.compile(r"\d")
LONGEST = 200  # characters of a line that are kept

_TABLE = resources.files(__package__).joinpath("symptoms.tsv").read_text(encoding="utf-8")
_ROWS = [line.split("\t") for line in _TABLE.splitlines() if not line.startswith("#")]
_KINDS = tuple((row[0], row[1], row[2] if row[2:] else f"{row[1]}.*") for row in _ROWS)


@cache
def rules() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Compile the patterns, which a log without any of their words does not need."""
    return tuple((kind, word, re.compile(pattern)) for kind, word, pattern in _KINDS)


class SymptomLines(Parser):
    """Errors of libraries and settings of hosts that explain figures."""

    marks = tuple(dict.fromkeys(word for _, word, _ in _KINDS))
    definitions = ()

    def __init__(self) -> None:
        self._symptoms: list[Symptom] = []
        self._counts: Counter[str] = Counter()

    def take(self, line: str, lineno: int) -> bool:
        del lineno
        return any(
            word in line and pattern.search(line)
            for kind, word, pattern in rules()
            if kind != CAUSE
        )

    def scan(self, text: str, first: int, short: str) -> None:
        """Look for signs of problems in lines; most words occur in none."""
        for kind, word, pattern in rules():
            if _DIGIT.sub("0", word) not in short:
                continue
            pos, lineno, offset = text.find(word), first, 0
            while pos >= 0 and self._counts[kind] < MOST:
                begin, end = text.rfind("\n", 0, pos) + 1, text.find("\n", pos)
                end = len(text) if end < 0 else end
                line = text[max(begin, pos - WIDTH) : min(end, pos + WIDTH)]
                match = pattern.search(line)
                # libraries try networks and devices, say so, and go on
                if match and not (kind in (CAUSE, *QUIET) and _INFORMS.search(line)):
                    lineno, offset = lineno + text.count("\n", offset, begin), begin
                    self._keep(kind, line, match, lineno)
                pos = text.find(word, end)

    def _keep(self, kind: str, line: str, match: re.Match[str], lineno: int) -> None:
        special = {symptom.kind for symptom in self._symptoms if symptom.line == lineno} - {CAUSE}
        if kind in special or (kind in (CAUSE, *START_UP) and special & {*START_UP}):
            return
        text, value = " ".join(line.split())[:LONGEST], (match.groups() or ("",))[0] or ""
        if not value or (kind, value) not in {(s.kind, s.value) for s in self._symptoms}:
            self._counts[kind] += 1
            self._symptoms.append(Symptom(kind=kind, text=text, value=value, line=lineno))

    def results(self) -> tuple[Parsed, ...]:
        if not self._symptoms:
            return ()
        symptoms = tuple(sorted(self._symptoms, key=lambda sign: sign.line))
        builder = ResultBuilder("symptoms", symptoms[0].line, "symptoms")
        return (builder.result(Symptoms(found=symptoms)),)
