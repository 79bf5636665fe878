"""How jobs, runs and clusters ended, in words: a text for each way."""

from typing import Literal

Outcome = Literal[
    "timed_out", "signal", "exit_status", "interrupted", "cut_short", "simulation_stopped",
    "down", "is_down", "paused", "rebuilt", "launched_again", "no_clusters", "machines_ended",
    "no_python", "lost_a_host", "host_lost", "started_again", "not_started", "ended_by",
    "older_output", "job_ended", "launch_ended",
]  # fmt: skip

OUTCOMES: dict[Outcome, str] = {
    "timed_out": "It did not end within --timeout, and all ranks were stopped.",
    "signal": "It was ended by {}, and all ranks were stopped.",
    "exit_status": "It ended with exit status {}, and all ranks were stopped.",
    "interrupted": "Ctrl-C was pressed.",
    "cut_short": "The batch job ended before its ranks: at its time limit, or somebody deleted it.",
    "simulation_stopped": "The simulation was stopped before its end.",
    "down": "The cluster was taken down.",
    "is_down": "{} is down.",
    "paused": "The cluster was paused.",
    "rebuilt": "{} rebuilt the cluster.",
    "launched_again": "Its launch was not finished, and was begun again.",
    "no_clusters": "There are no clusters; nothing was taken down.",
    "machines_ended": "{} of {} machines of {} have ended; {}.",
    "no_python": "{} was launched with {}, which is gone.",
    "lost_a_host": "It lost a host, and is started again.",
    "host_lost": "Its host was lost.",
    "started_again": "It is started again.",
    "not_started": "It could not be started on all hosts.",
    "ended_by": "Ended by {}.",
    "older_output": "{} bytes of older output are not kept.",
    "job_ended": "The job has ended.",
    "launch_ended": "This launch has ended.",
}


def outcome_words(outcome: Outcome, *values: object) -> str:
    return OUTCOMES[outcome].format(*values)
