"""Steps of srun inside a Slurm job: for nodes that let nobody in by SSH.

Each command is a step of its own, `srun --overlap`, started on this machine or on a login host,
where no srun stays when a command is given up: its standard input ends. One that reads a file of
ours from there sees the end of the file, and ends once its node answers.
Where Slurm tracks processes by cgroups, what a command leaves in the background ends with its step.
"""

import contextlib
import platform
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Self

from cluster.agent import peers
from cluster.core.errors import ShellError, Unreachable
from cluster.core.login_host import SSH_FAILED, login_command
from cluster.core.model.hosts import Machine, ssh_command
from cluster.core.state.files import load_script
from cluster.remote.remote_shell import ENDS_WITHIN, ProcessCommand, ProcessShell

STARTS_WITHIN = 30.0  # seconds for a first step; a busy slurmctld takes seconds
# What srun itself says when the step could not run, or was lost: no exit status of the command.
LOST = (
    "srun: error: Slurm job",  # ... has expired
    "srun: error: Unable to",
    "srun: error: Node failure on",
    "srun: error: Timed out waiting",
    "srun: error: slurm_receive_msg",
    "srun: error: Invalid job id",
    "srun: fatal:",
    "srun: Force Terminated",
    "srun: Job step aborted",
)
# What it says about the exit status of the command, which we get anyway, and about binding.
ABOUT_STATUS, NO_BINDING = ": task 0: ", "srun: cluster configuration lacks support for cpu binding"
# What a command starts is no part of the step: mpirun would start its daemons by srun.
FORGET = "unset $(env | sed -n 's/^\\(SLURM[A-Z0-9_]*\\)=.*/\\1/p')"
ENVIRONMENT = "HOME,USER,LOGNAME,SHELL,LANG,PATH"  # as SSH sets it; srun would pass on all of ours
ASK = load_script(__file__, "ask_srun_host.sh")
SILENT = "silent"


class SrunShell(ProcessShell):
    """Runs commands on a node as steps of its job, by the host of `machine.access` or here."""

    @property
    def host(self) -> str:
        return self.machine.id if self.machine else ""

    def connect(self) -> None:
        """Run one step, so that a job that is over or a node that is down is noticed now."""
        self.state = "connecting"
        with self.begin("connect", "exit 0") as command:
            command.close_input()
            if not command.has_ended(STARTS_WITHIN):
                raise Unreachable(
                    f"srun started nothing on {self.host} within {STARTS_WITHIN:g} s.",
                    state="connecting",
                    transient=True,
                    means="slurmctld or the node's slurmd does not answer, or a prolog runs.",
                    remedy=f"Look: scontrol show node {self.host}; squeue --steps",
                )
            status, errors = command.end()
        if status != 0:
            raise Unreachable(f"srun failed on {self.host}: {errors.strip()}", state="connecting")
        self.state = "ready"

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Ask the node's kernel: srun itself waits until slurmctld gives the node up."""
        if self.machine is None:
            raise _without_job()
        with KernelWatch(self.machine, self.close) as watch:
            try:
                yield
            except Unreachable as error:
                if not watch.why:
                    raise
                raise Unreachable(
                    f"{watch.why}.", state="broken", transient=True, remedy=error.remedy
                ) from error

    def begin(self, label: str, line: str, *, reads: bool = False) -> "SrunCommand":
        if self.machine is None or not self.machine.job:
            raise _without_job()
        return SrunCommand(self, label, self.machine, line, reads=reads)


def _without_job() -> ShellError:
    return ShellError("No Slurm job is known that holds this host.")


class SrunCommand(ProcessCommand):
    def __init__(
        self, shell: SrunShell, label: str, machine: Machine, line: str, *, reads: bool
    ) -> None:
        self._host = machine.id
        self._by_ssh = machine.access is not None
        step = [
            *("srun", f"--jobid={machine.job}", "--overlap", "--nodes=1", "--ntasks=1"),
            *(f"--nodelist={machine.id}", "--mpi=none", "--cpu-bind=none", "--quiet"),
            *(f"--export={ENVIRONMENT}", "--chdir=/", "sh", "-c", f"{FORGET}; cd; {line}"),
        ]
        if machine.access is not None and reads:
            step = ssh_command(machine.access, shlex.join(step))
        elif machine.access is not None:
            step = login_command(machine.access, step)
        super().__init__(
            shell,
            label,
            step,
            keeps_input=self._by_ssh and not reads,
            remedy="Run this where Slurm's commands are, as on a login node.",
        )

    def end(self) -> tuple[int, str]:
        """Wait for its end; raise if Slurm, and not the command, ended it."""
        status = self.process.wait()
        lines = self.errors(ENDS_WITHIN if status < 0 else None).splitlines(keepends=True)
        output = [line for line in lines if not _is_noise(line)]
        losses = [line.strip() for line in output if line.startswith(LOST)]
        if status < 0 or (status != 0 and losses) or (status == SSH_FAILED and self._by_ssh):
            reason = losses[-1] if losses else "".join(output).strip() or "srun was ended"
            raise Unreachable(
                f"The step on {self._host} was lost: {reason}",
                state="broken",
                transient=True,
                means="Whether the command went on there is not known.",
                remedy="Look whether the job still runs: squeue --me",
            )
        return status, "".join(output)


def _is_noise(line: str) -> bool:
    is_status = line.startswith("srun: error: ") and ABOUT_STATUS in line
    return is_status or line.startswith(NO_BINDING)


class KernelWatch:
    """Asks a host's kernel, while a block runs, whether it is there.

    A host that does not answer the first question is not watched: a firewall may drop it. Nor is
    this machine itself. The question comes from the host in `machine.access`; `on_loss` is called
    in another thread after `peers.SILENT` seconds, and `why` then says what happened.
    """

    def __init__(self, machine: Machine, on_loss: Callable[[], object]) -> None:
        self._machine = machine
        self._on_loss = on_loss
        self._process: subprocess.Popen[str] | None = None
        self.why = ""

    def __enter__(self) -> Self:
        own_host, _, _ = platform.node().partition(".")
        if self._machine.access is None and self._machine.id.partition(".")[0] == own_host:
            return self
        with suppress(OSError):  # there is no bash, or no ssh: the host is not watched
            # its seconds are whole numbers, as bash counts them
            seconds = (peers.BETWEEN, peers.ANSWERS_WITHIN, peers.SILENT)
            words = ["bash", "-c", ASK, "bash", self._machine.address, str(peers.PORT)]
            words += [f"{value:.0f}" for value in seconds]
            if self._machine.access is not None:
                words = ssh_command(self._machine.access, shlex.join(words))
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        if self._process.stdin:
            self._process.stdin.close()  # the script ends; ssh may wait for a dead host
        self._process.terminate()
        self._process.wait()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if line.strip() == SILENT:
                self.why = f"{self._machine.address} has not answered for {peers.SILENT:g} s"
                self._on_loss()
        if process.stdout:
            process.stdout.close()
