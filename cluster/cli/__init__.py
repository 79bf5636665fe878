"""The `cluster` command: the only place that knows flags, progress bars and exit codes.

Its exit statuses are in `cluster.cli.overview`. What signals do: docs/adr/0019-signals.md.
Each command imports what it needs, and the two answers that need no command import nothing.
"""

import sys
from collections.abc import Callable
from typing import NoReturn

from cluster.cli import overview


def main() -> NoReturn:
    text = overview.answer(sys.argv[1:])
    if text is not None:
        print(text)  # noqa: T201 - also where standard output is closed
        sys.exit(0)
    if "--gate" in sys.argv:  # its time began when this process did
        from cluster.cli.deadline import raise_priority  # noqa: PLC0415 - only a gate needs it

        raise_priority()
    from cluster.cli.command_line import app, run  # noqa: PLC0415 - click takes longer

    run(app)


def start(*launchers: Callable[..., None], what: str | None = None) -> NoReturn:
    """Run a launcher script: parameters become flags, docstrings the help.

    Args:
        launchers: functions whose parameters are annotated with `cluster.cli.flags`; if there are
            several, the name of each is a verb.
        what: they are for, as the help of a script with several verbs.
    """
    from cluster.cli import command_line  # noqa: PLC0415 - main need not have it

    command_line.start(*launchers, what=what)
