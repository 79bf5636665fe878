"""Commands on a host where we log in, which end there when nobody waits for them any more.

A command whose ssh has ended goes on over there: sshd sends it no signal, and srun waits for its
step however long that takes. Its standard input is the only stream whose end shows at once, also
where several sessions of ssh share one connection (`ControlMaster`).
"""

import shlex
from collections.abc import Sequence

from cluster.core.model.hosts import Access, ssh_command
from cluster.core.state.files import load_script

SSH_FAILED = 255  # exit status of ssh if it could not connect; a command's own becomes 1
TERMINATES_WITHIN = 2  # seconds from SIGTERM to SIGKILL

SCRIPT = load_script(__file__, "login_host.sh", FAILED=SSH_FAILED, WITHIN=TERMINATES_WITHIN)


def login_command(access: Access, argv: Sequence[str]) -> list[str]:
    """Return the ssh command that runs a command there until its standard input is closed here."""
    return ssh_command(access, shlex.join(["sh", "-c", SCRIPT, "sh", *argv]))
