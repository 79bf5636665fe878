"""The exit statuses of the command."""

from __future__ import annotations

FAILED = 1
REFUSED = 2
GATE_HIT = 3
INTERRUPTED = 130
TERMINATED = 143
STATUSES = {
    0: "success",
    FAILED: "the command failed; a verdict is FAILED or IMPOSSIBLE (`judge` always; `bench`, "
    "`report` and `compare` with `--fail-on`, `--junit` or `--github`); or `doctor` found a "
    "problem",
    REFUSED: "wrong usage, or refused before anything was created",
    GATE_HIT: "a verdict that `--fail-on` names; or an alarm of `cluster watch`",
    INTERRUPTED: "interrupted by Ctrl-C",
    TERMINATED: "ended by SIGTERM",
}
"""What each exit status of the command means; the page of exit statuses is made from it."""
