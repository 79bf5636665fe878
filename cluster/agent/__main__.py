"""The verbs of the agent: work on a host that a shell line would not do well.

`python3 -m cluster.agent VERB` runs one of them; each line that it prints is a JSON object:

facts FOLDER PROGRAM...   the facts of this host, and which of these programs it has
look FOLDER               the state of a job
watch FOLDER              what a job writes, as it writes it, until it ends
stop FOLDER               end a job's processes, the ranks first, and wait until they are gone
halt FOLDER               end a job's ranks on this host
sweep                     remove what ended jobs left in this host's shared memory
hang FOLDER SECONDS [native]  what the ranks of a job do now, and after a pause
usage SECONDS N FOLDER ADDRESS...  what this host does, each interval, N times or for ever
results FOLDER            leave only results in the copy of a user's folder that a job ran in
run SECONDS COMMAND...    start the ranks, for a job's own script in the job's folder; end them when
                          the time is up or on a signal

task FOLDER               run a task of a job, in a tmux pane
task-close FOLDER         end what is left of it, and record that its supervisor was killed
task-begun FOLDER         the state of a task once its command was started
task-states FOLDER...     the states of tasks
task-follow FOLDER N      what a task prints after its first N bytes, until it ends; then its state
task-stop FOLDER REASON   end all processes of a task
"""

import sys
import time
from pathlib import Path

from msgspec.structs import replace

from cluster.agent.follow import follow_job, job_state, print_event


def main(verb: str, *words: str) -> int:
    if verb == "run":
        from cluster.agent.supervise import run_job  # noqa: PLC0415 - a verb starts often, everywhere

        return run_job(float(words[0]), list(words[1:]))
    if verb.startswith("task"):
        from cluster.agent import task  # noqa: PLC0415

        return task.main(verb, *words)
    if verb == "hang":
        from cluster.agent.hang import report  # noqa: PLC0415

        for pause in (0.0, float(words[1])):
            time.sleep(pause)
            print_event(report(Path(words[0]).absolute(), native=words[2:] == ("native",)))
    elif verb == "usage":
        from cluster.agent.hardware.counters import watch  # noqa: PLC0415
        from cluster.agent.task import running_jobs  # noqa: PLC0415

        for usage in watch(float(words[0]), int(words[1]), words[3:]):
            print_event(replace(usage, jobs=running_jobs(Path(words[2]).absolute())))
    else:
        _answer(verb, words)
    return 0


def _answer(verb: str, words: tuple[str, ...]) -> None:
    match verb:
        case "facts":
            from cluster.agent.facts import host_facts  # noqa: PLC0415

            print_event(host_facts(*words[1:], folder=Path(words[0])))
        case "look":
            print_event(job_state(Path(words[0])))
        case "watch":
            print_event(follow_job(Path(words[0])))
        case "stop":
            from cluster.agent.supervise import stop_job  # noqa: PLC0415

            print_event(stop_job(Path(words[0])))
        case "halt":
            from cluster.agent.supervise import kill_ranks  # noqa: PLC0415

            kill_ranks(Path(words[0]))
        case "sweep":
            from cluster.agent.scratch import sweep  # noqa: PLC0415

            sweep()
        case "results":
            from cluster.agent.scratch import remove_unchanged  # noqa: PLC0415

            remove_unchanged(Path(words[0]))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
