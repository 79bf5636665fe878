"""What launches do, how jobs, runs and clusters ended, and what `sync` did, in words."""

from collections.abc import Collection

from cluster.core.model.hosts import SyncFigures
from cluster.core.model.jobs import LaunchStep, LaunchStepKind
from cluster.core.text.units import format_bytes

MOST_NAMED = 5  # files

OUTCOMES = {
    "timed_out": "It did not end within --timeout, and all ranks were stopped.",
    "signal": "It was ended by {}, and all ranks were stopped.",
    "exit_status": "It ended with exit status {}, and all ranks were stopped.",
    "interrupted": "Ctrl-C was pressed.",
    "cut_short": "The batch job ended before its ranks: at its time limit, or somebody deleted it.",
    "simulation_stopped": "The simulation was stopped before its end.",
    "down": "The cluster was taken down.",
    "is_down": "{} is down.",
    "stays_up": "{0} stays up, with the jobs that were started. To end them: cluster down {0}",
    "paused": "The cluster was paused.",
    "rebuilt": "{} rebuilt the cluster.",
    "launched_again": "Its launch was not finished, and was begun again.",
    "no_clusters": "There are no clusters; nothing was taken down.",
    "all_ended": "{0} of {0} machines of {1} have ended; what else it had may still be there.",
    "some_ended": "{} of {} machines of {} have ended; the others cost money.",
    "no_python": "{} was launched with {}, which is gone.",
    "lost_a_host": "It lost a host, and is started again.",
    "host_lost": "Its host was lost.",
    "started_again": "It is started again.",
    "not_started": "It could not be started on all hosts.",
    "ended_by": "Ended by {}.",
    "older_output": "{} bytes of older output are not kept.",
    "job_ended": "The job has ended.",
    "launch_ended": "This launch has ended.",
    "set_up": "set-up: ran on {} of {} host(s)",
    "waits": "waits for {}: cluster logs {} {} -f",
    "waits_for_port": "waits for port {} of {}: cluster logs {} {} -f",
    "exists": "{} exists already: {} machine(s); no new ones are created",
    "exists_at": "{} exists already: {} machine(s), ${:.4g} an hour; no new ones are created",
    "launching": "another process is launching {}, or replaces its hosts",
    "job_runs": "a job runs on {}: {}",
    "cores_used": "{:.0%} of its processors are in use",
    "gpus_used": "{} process(es) use its GPUs",
    "replaced_by": "{0.user}@{0.host} (process {0.pid}) ended it by --replace: {0.command}",
    "hung": "No line for {:g} s. {}. Evidence: {}",
    "values_go_to": "{} runs; its values go to {}",
    "no_switches": "the provider {!r} knows no switches",
    "hosts_of_a_log": "the hosts are those of a log",
    "fabric": "{} hosts, {}, seed {}",
    "planted": "{} hosts, {}, seed {}, planted: {}",
    "job_over": "its job is over",
    "half_replaced": "the replacement of its hosts was interrupted; the others stay",
    "expired": "its time to live is over",
    "unfinished": "its launch was never finished",
    "unknown": "no journal knows of it",
    "launched_on": "no journal here knows of it; it was launched on {}",
    "expired_on": "no journal here knows of it; it was launched on {}; its time to live is over",
    "no_credentials": "not {}: this machine has no credentials, or no region, for it",
    "other_hosts": "Take it down, and launch it again on other hosts: cluster down {}",
    "irreplaceable": "the provider {!r} cannot replace hosts",
    "run_folder": "Run folder: {}",
    "run_ended": "It {}: {}",
    "judge_pairs": "Next: cluster check --from {}",
    "show_run": "Next: cluster show {}",
}
STEPS: dict[LaunchStepKind, str] = {
    "prove": "all hosts are proven, within {0.seconds:g} s",
    "set_up": "set-up: a script of {0.count} line(s), once on each host",
    "send": "send what changed in {0.source} to {0.target}",
    "job": "job {names} on {0.count} host(s){options}: {0.job.command}",
    "wait": "wait for {names}",
    "fetch": "fetch {0.source} to {0.target}",
    "down": "take the cluster down, also if a job failed",
}


def outcome_words(outcome: str, *values: object) -> str:
    return OUTCOMES[outcome].format(*values)


def step_words(step: LaunchStep) -> str:
    job = step.job
    options = ((" ({})", job.on), (", in {}", job.cwd), (", after {}", job.after))
    words = "".join(text.format(value) for text, value in options if value)
    return STEPS[step.kind].format(step, names=", ".join(step.names), options=words)


def sync_words(report: SyncFigures) -> str:
    place = f"{report.there} on {len(report.hosts)} host(s)"
    lines = [f"{place} is up to date: {report.files:,} files, nothing was sent."]
    if report.sent:
        lines = [
            f"{place}: {report.sent:,} of {report.files:,} files sent, "
            f"{format_bytes(report.sent_bytes)} from here"
            + f", {format_bytes(report.passed_on)} from host to host" * bool(report.passed_on)
            + "."
        ]
    for action, names in (
        ("Removed there", report.removed),
        ("Left out (.gitignore, caches, Python environments, runs)", report.left_out),
        ("These links lead out of the folder, and were sent as links", report.outward),
    ):
        lines += [f"{action}: {_list_names(names)}."] if names else []
    if report.changed:
        lines.append(
            f"Changed while they were sent: {_list_names(report.changed)}.\n"
            "Their copies may be of two states. Sync again when nothing writes them."
        )
    return "\n".join(lines)


def _list_names(names: Collection[str]) -> str:
    text = ", ".join(name if name.isprintable() else repr(name) for name in [*names][:MOST_NAMED])
    return text + f" and {len(names) - MOST_NAMED:,} more" * (len(names) > MOST_NAMED)
