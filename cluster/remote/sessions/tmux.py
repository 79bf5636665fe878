"""tmux on one host; no other module calls it.

On this machine, libtmux runs the commands; on any other host, a shell runs the same ones. Text is
always escaped for tmux, which would run a command in `#(...)`.
"""

from collections.abc import Sequence

from cluster.core.errors import ShellError, SpecError
from cluster.core.model.hosts import Completed
from cluster.remote.shells import Shell

MARK = "@cluster"  # the tmux option that marks a session as ours
BY = "@cluster_by"  # the tmux option that says who started its job
TIMEOUT = 60.0  # seconds for a command that should end at once
AS_IT_IS = "-u"  # UTF-8 in any locale; without it, tmux prints `_` for non-ASCII text
# A server ends with its last session. A call at that moment fails with one of these messages: no
# session was created, and the next call starts a new server.
SERVER_ENDED = ("server exited unexpectedly", "lost server")
RETRIES = 3
NOT_FOUND = 127  # exit status of a shell if there is no such program


def escape(text: str) -> str:
    """Escape a text for tmux.

    In a text that tmux expands, `#` begins a format, and `#(...)` runs a command; an argument that
    ends with `;` ends the command ("FORMATS" and "PARSING SYNTAX" in tmux(1)).
    """
    formats = text.replace("#", "##")
    return f"{formats[:-1]}\\;" if formats.endswith(";") else formats


def missing_tmux_error(host: str) -> SpecError:
    return SpecError(
        f"tmux is missing on {host}.",
        means="Jobs run in tmux sessions, so that they outlive the connection.",
        remedy="Install it: sudo apt-get install tmux",
        host=host,
    )


class Tmux:
    """The tmux server that a shell reaches, or without one that of this machine, by libtmux.

    A session's name is always matched exactly.
    """

    def __init__(self, host: str, shell: Shell | None) -> None:
        self._host = host
        self._shell = shell

    def _run(self, words: Sequence[str]) -> Completed:
        argv = ["tmux", AS_IT_IS, *words]
        if self._shell is not None:
            return self._shell.run(argv, timeout=TIMEOUT)
        import libtmux  # noqa: PLC0415 - slow, and only for local hosts
        from libtmux.exc import TmuxCommandNotFound  # noqa: PLC0415

        try:
            result = libtmux.Server().cmd(AS_IT_IS, *words)
        except TmuxCommandNotFound:
            return Completed(
                argv=tuple(argv), status=NOT_FOUND, stdout="", stderr="tmux: not found"
            )
        out, err = ("".join(f"{row}\n" for row in text) for text in (result.stdout, result.stderr))
        return Completed(argv=tuple(argv), status=result.returncode, stdout=out, stderr=err)

    def _try(self, *words: str) -> Completed:
        result = self._run(words)
        if result.status == NOT_FOUND:
            raise missing_tmux_error(self._host)
        return result

    def start(self, session: str, folder: str, argv: Sequence[str], caller: str = "") -> None:
        """Run a command of at least two words in a new session, which stays when the command ends.

        tmux would pass a single word to a shell. ShellError: the session could not be started.
        """
        target = f"={session}:"
        # One command line: a user's `destroy-unattached on` would end the session before a second.
        words = (
            *("new-session", "-d", "-s", session, "-n", "0", "-x", "160", "-y", "48"),
            *("-c", escape(folder), *(_as_word(word) for word in argv), ";"),
            *("set-option", "-t", target, "destroy-unattached", "off", ";"),
            *("set-option", "-w", "-t", target, "remain-on-exit", "on", ";"),
            # No last line of tmux, which would scroll the first away; -q: older versions lack it.
            *("set-option", "-q", "-w", "-t", target, "remain-on-exit-format", "", ";"),
            *("set-option", "-t", target, MARK, _as_word(folder), ";"),
            *("set-option", "-t", target, BY, _as_word(caller)),
        )
        result = self._try(*words)
        for _ in range(RETRIES):
            if result.stderr.strip() not in SERVER_ENDED:
                break
            result = self._try(*words)
        if result.status != 0:
            raise ShellError(
                f"The tmux session {session} could not be started on {self._host}.",
                means=result.stderr.strip(),
                host=self._host,
            )

    def exists(self, session: str) -> bool:
        return self._try("has-session", "-t", f"={session}").status == 0

    def folder_of(self, session: str) -> str:
        """Return the folder that marks a session as ours; empty if it is not, or does not exist."""
        return self.option(session, MARK)

    def option(self, session: str, name: str) -> str:
        result = self._try("show-options", "-qv", "-t", f"={session}:", name)
        return result.stdout.removesuffix("\n") if result.status == 0 else ""

    def look(self, session: str) -> tuple[str, bool]:
        """Return the id of a session, and whether its command runs; no id if there is none.

        The id never means another session of the same name.
        """
        words = ("display-message", "-p", "-t", f"={session}:", "#{session_id} #{pane_dead}")
        id_, _, dead = self._try(*words).stdout.strip().partition(" ")
        return id_, dead != "1"

    def capture(self, session: str) -> str:
        """Return the text that a session's pane shows; empty if there is no such session."""
        result = self._try("capture-pane", "-p", "-t", f"={session}:")
        return result.stdout if result.status == 0 else ""

    def kill(self, session: str) -> None:
        self._try("kill-session", "-t", session if session.startswith("$") else f"={session}")


def tmux_on(host: str, shell: Shell) -> Tmux:
    return Tmux(host, None if shell.name == "local" else shell)


def attach_words(session: str, *, inside: bool = False) -> list[str]:
    """Return the command that attaches a terminal to a session, also from `inside` tmux."""
    return ["tmux", "switch-client" if inside else "attach-session", "-t", f"={session}"]


def _as_word(word: str) -> str:
    """Escape a `;` at the end of a word, which would end the command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word
