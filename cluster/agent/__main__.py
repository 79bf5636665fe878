"""What is done on a host itself, where a shell line would not do it well.

Run there as `python3 -m cluster.agent VERB`; every answer is JSON, a line each:

facts FOLDER PROGRAM...   what this host is, where our folder is, and which of these programs it has
look FOLDER               how far a job is
watch FOLDER              what a job writes, as it writes it, until it ends
stop FOLDER               end a job's processes, the ranks first, and wait until they are gone
halt FOLDER               end a job's ranks on this host

One verb is for the job's own script, in the job's folder:

run SECONDS COMMAND...    run the command that starts the ranks; end them in time, or when asked
"""

from __future__ import annotations

import sys
from pathlib import Path

from cluster.agent.follow import _print, look, watch
from cluster.agent.supervise import halt, run, stop


def main(verb: str, *words: str) -> int:
    """Answer one verb.

    Args:
        verb: what to do.
        words: what it needs.

    Returns:
        The exit status.

    """
    match verb:
        case "facts":
            from cluster.agent.facts import facts  # noqa: PLC0415 - who follows a job needs none

            _print(facts(*words[1:], folder=Path(words[0])))
        case "look":
            _print(look(Path(words[0])))
        case "watch":
            _print(watch(Path(words[0])))
        case "stop":
            _print(stop(Path(words[0])))
        case "halt":
            halt(Path(words[0]))
        case "run":
            return run(float(words[0]), list(words[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
