"""A gate around each job of a Slurm, on the host of slurmctld: `cluster more script gate-slurm`.

A prolog that fails there requeues the job and drains no node; on a node, it would drain that node.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from cluster.core import decoders
from cluster.core.errors import ClusterError
from cluster.core.messages import for_command_line
from cluster.core.model.network.gate import FEWEST
from cluster.core.model.value import Value
from cluster.core.text.units import parse_percent, parse_rate, parse_seconds
from cluster.orchestration.launch.launch import launch
from cluster.providers.slurm.client import SlurmClient, drain, give_back, mark_of, nodes_by_name
from cluster.providers.slurm.states import SlurmNode
from cluster.reports.words.gate import event_words, with_words

DOWN_SHARE = 0.2  # of the time of a gate, which is kept for leaving the hosts
KEEP_OFF = 100  # the exit status of a prolog whose job may not start; all others let it start


class SlurmGate(Value, frozen=True, kw_only=True):
    """What gates of a Slurm do.

    Args:
        within: How long a gate may take; PrologEpilogTimeout of slurm.conf has to be longer.
        limit: What a link should carry, such as 100gbit; if empty, what the hosts say.
        drain: Drain bad nodes, with the reason.
        at_most: Percentage of all nodes that gates may drain; one may be in any case.
    """

    within: str = "60s"
    limit: str = ""
    drain: bool = False
    at_most: str = "10%"

    def figures(self) -> tuple[float, float, float]:
        """Return the seconds, the limit in bytes per second or 0, and the share (SpecError)."""
        limit = parse_rate(self.limit) if self.limit else 0.0
        return parse_seconds(self.within), limit, parse_percent(self.at_most, "--at-most")


class _Job(Value, frozen=True, kw_only=True):
    """A job of Slurm, and the gate around it."""

    gate: SlurmGate
    number: str
    names: tuple[str, ...]  # of its nodes

    def prolog(self) -> int:
        """Return KEEP_OFF if the job may not start on its nodes, so that it is requeued."""
        # nodes on which other jobs run, too, are not measured
        jobs = ("squeue", "--noheader", f"--nodelist={','.join(self.names)}", "--format=%A %N")
        words = [line.split() for line in SlurmClient().run(jobs).stdout.splitlines()]
        nodes = ",".join(w[1] for w in words if w[1:] and w[0] != self.number)
        shared_nodes = set(SlurmClient().names_in(nodes)) if nodes else set()
        is_bad, reasons = self._prove([name for name in self.names if name not in shared_nodes])
        if not is_bad:
            return 0
        is_drained = False
        with self._log_refusal("not_drained", ", ".join(reasons)):
            is_drained = self._drain(reasons)
        if not is_drained:  # on the same nodes, it would fail again and again
            with self._log_refusal("not_held"):  # Slurm holds no job of srun or salloc: it ends
                SlurmClient().run(("scontrol", "requeuehold", self.number))
                self.log("held", self.number)
        return KEEP_OFF

    def epilog(self) -> int:
        """Prove the nodes that the job left, while a mark keeps other jobs off (ClusterError)."""
        mark = (self.number, "measured")
        names = [n.name for n in self._idle(self.names) if not n.flags]
        if not self.gate.drain or len(names) < FEWEST:
            return 0  # nothing may keep other jobs off, or there is no pair
        try:
            drain(names, mark)  # a node on which another job has just begun is not idle
            self._drain(self._prove([node.name for node in self._idle(names)])[1])
        finally:
            give_back(mark)
        return 0

    def _idle(self, names: Sequence[str]) -> list[SlurmNode]:
        return [n for n in SlurmClient().nodes(",".join(names)) if n.state == "IDLE"]

    def log(self, event: str, *values: object) -> None:
        head = f"{time.strftime('%Y-%m-%d %H:%M:%S')} job {self.number}"
        print(f"{head}: {event_words(event, *values)}", flush=True)  # noqa: T201

    @contextmanager
    def _log_refusal(self, event: str, *values: str) -> Iterator[None]:
        """Log why Slurm refuses what is done in this block, and go on after it."""
        try:
            yield
        except ClusterError as error:
            self.log(event, *values, error.what)

    def _prove(self, names: Sequence[str]) -> tuple[bool, dict[str, str]]:
        """Return whether a part of these nodes is bad, and which nodes are, each with the reason.

        What could not be proven is only logged: it is no reason to keep a job off.
        """
        from cluster.orchestration.launch.gate import prove  # noqa: PLC0415 - slow: numpy

        start, (within, limit, _) = time.monotonic(), self.gate.figures()
        reserve, gate = DOWN_SHARE * within, None
        if len(names) < FEWEST:
            self.log("no_pair", len(names))
            return False, {}
        options = {"hosts": ",".join(names), "bin": str(Path(sys.executable).parent)}
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        # until the gate keeps the time itself, and again for what is undone then
        signal.setitimer(signal.ITIMER_REAL, within - reserve, reserve)
        try:
            with ExitStack() as stack:
                cluster = launch(f"gate-{self.number}", provider="ssh", options=options)
                stack.callback(cluster.down)
                stack.callback(signal.setitimer, signal.ITIMER_REAL, reserve)
                gate = prove(cluster, within - reserve, params={"limit": limit}, start=start)
        except (ClusterError, KeyboardInterrupt) as error:
            reason = str(error) or event_words("late_nodes")
            self.log(*(("failed", reason) if gate is None else ("remains", self.number)))
            if gate is None:
                return False, {}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        bad = [
            replace(finding, name=names[finding.place.host])
            for finding in gate.bad
            if finding.place.kind in ("host", "nic")
        ]
        answer = replace(gate, bad=tuple(bad) or gate.bad, step=None)
        self.log("answer", with_words(answer, f"{len(names)} nodes").answer)
        return gate.verdict == "BAD", {finding.name: finding.evidence for finding in bad}

    def _drain(self, reasons: Mapping[str, str]) -> bool:
        """Drain bad nodes if that was asked for; return whether none stays (ClusterError)."""
        if not reasons or not self.gate.drain:
            return False
        nodes, share = nodes_by_name(), self.gate.figures()[2]
        drained_nodes = {name for name, node in nodes.items() if mark_of(node)[1:] == ("bad",)}
        # a reason without our mark is somebody else's
        free = [n for n in reasons if not nodes[n].reason or mark_of(nodes[n])]
        if free and len(drained_nodes.union(free)) > max(1, int(share * len(nodes))):
            self.log("too_many", len(drained_nodes), len(nodes), ", ".join(free))
            return False
        new = []
        for name in free:
            with self._log_refusal("not_drained", name):
                drain([name], (self.number, "bad"), reasons[name])
                new.append(name)
        if new:
            self.log("drained", ", ".join(new))
        return all(name in new or "DRAIN" in nodes[name].flags for name in reasons)


def main(request: str, verb: str = "") -> int:
    """Do what Slurm runs the script for, or `undo` what gates have drained.

    An error keeps no job off its nodes: what Slurm or SSH did not do is not their fault.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Slurm's, when its time is over
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # slurmctld blocks it, and the alarm
    context, number, nodes = (
        os.environ.get(f"SLURM_{name}", "") for name in ("SCRIPT_CONTEXT", "JOB_ID", "JOB_NODELIST")
    )
    with for_command_line():
        try:
            if verb == "undo":
                names = give_back()
                sys.stdout.write(f"{event_words('undrained', ', '.join(names) or '-')}\n")
                return 0
            gate = decoders.decode(request, SlurmGate)
            job = _Job(gate=gate, number=number, names=SlurmClient().names_in(nodes))
            return job.prolog() if context == "prolog_slurmctld" else job.epilog()
        except ClusterError as error:
            sys.stdout.write(f"{error}\n")
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # threads may still wait for hosts that do not answer
