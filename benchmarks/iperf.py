"""TCP throughput between two hosts, by iperf3.

An example of a benchmark that wraps a foreign program: the ranks start it, each on its host, and
its own output is kept in `raw/`, where every value can be checked.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from cluster.core.errors import ClusterError, ParseError, SpecError
from cluster.core.model.results.measurements import Definition, Planned, define
from cluster.core.model.value import Value
from cluster.core.text.units import format_value
from cluster.measure.benchmark import Benchmark, check_pair
from cluster.measure.main import main
from cluster.measure.subprocesses import run_program, run_server

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

    from cluster.core.model.hosts import Facts
    from cluster.measure.rank import Rank

IPERF = "iperf3"
# The limits of iperf3 itself (iperf.h: MAX_STREAMS, MAX_TIME, MAX_OMIT_TIME).
MOST = {"streams": 128, "seconds": 86_400, "omit": 600}
LEAST = {"iterations": 1, "streams": 1, "seconds": 1, "omit": 0}
SLACK = 30.0  # seconds in addition to the test's, to connect and to exchange results
END_WITHIN = 10.0  # seconds for a rank to answer, or for mpirun to notice that it was killed
ALIVE = b"."  # what a rank answers that was not killed
THREADED = (3, 16)  # since this version, each stream has a thread of its own

RECEIVED = (
    "the bytes that the receiver took from TCP in one test (end.sum_received of iperf3's JSON: all "
    "streams together, headers not counted) over its seconds; 2 s unless said otherwise, on any "
    "core that the job may use"
)

FORWARD, REVERSE = define(
    "iperf",
    f"forward (B/s, one way): iperf3 sends from the first rank's host of the pair to the second's: "
    f"{RECEIVED}\n"
    "reverse (B/s, one way): iperf3 -R sends from the second rank's host of the pair to the "
    f"first's: {RECEIVED}",
    clock="iperf3's own, on the host that received",
    synchronisation="the sender begins when the receiver listens; one test at a time, on "
    "connections of its own",
    warm_up="the first second of each test is not counted (iperf3 --omit), unless said otherwise",
)


class IperfParams(Value, frozen=True, kw_only=True):
    """The parameters of `iperf`.

    Args:
        metrics: Which metrics to measure.
        streams: Connections at once, such as 1,8.
        iterations: Tests per metric and number of streams.
        seconds: Of each test that count.
        omit: Seconds before them that do not.
        pair: The two ranks whose hosts run iperf3.
    """

    metrics: tuple[str, ...] = ("forward", "reverse")
    streams: tuple[int, ...] = (1,)
    iterations: int = 3
    seconds: int = 2
    omit: int = 1
    pair: tuple[int, int] = (0, 1)


class IperfTest(Value, frozen=True, kw_only=True):
    """One test: a client and a server."""

    definition: Definition
    streams: int
    number: int  # of its iteration, from 1

    @property
    def file(self) -> str:
        return f"iperf3.{self.definition.metric}.{self.streams}.{self.number}.json"


class ReceivedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """What the receiver counted: bytes, and their duration in seconds."""

    bytes: int
    seconds: float


class IperfEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The object `end` of iperf3's JSON; empty if the test failed."""

    sum_received: ReceivedBytes | None = None


class IperfDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of iperf3's JSON that are read; all of it is in the run's `raw/`."""

    end: IperfEnd = IperfEnd()
    error: str = ""


class Iperf(Benchmark[IperfParams]):
    """TCP between two hosts, measured by iperf3."""

    Params = IperfParams
    metrics: ClassVar[tuple[Definition, ...]] = (FORWARD, REVERSE)
    programs: ClassVar[tuple[str, ...]] = (IPERF,)

    def check(self, params: IperfParams, ranks: int) -> None:
        self.selection(params)
        if not params.streams:
            raise SpecError("There are no streams.", remedy="Give some: --streams 1,8")
        for field, least in LEAST.items():
            value = getattr(params, field)
            for count in value if isinstance(value, tuple) else (value,):
                most = MOST.get(field)
                if count < least or (most is not None and count > most):
                    limit = f"at least {least}" if most is None else f"between {least} and {most}"
                    raise SpecError(f"--{field} is {count}; it must be {limit}.")
        check_pair(params.pair, ranks)

    def transport(self, params: IperfParams) -> str:
        return "tcp"

    def selection(self, params: IperfParams) -> tuple[Definition, ...]:
        return self.find_metrics(params.metrics)

    def plan(self, params: IperfParams, ranks: int) -> Iterator[Planned]:
        for definition in self.selection(params):
            for streams in dict.fromkeys(params.streams):
                yield Planned(metric=definition.metric, params={"streams": streams})

    def notes(self, params: IperfParams, facts: tuple[Facts, ...]) -> tuple[str, ...]:
        """Name the hosts on which several streams share one thread."""
        if max(params.streams) == 1:
            return ()
        versions = {fact.host: fact.programs.get(IPERF, "") for fact in facts}
        return tuple(
            f"{says} on {host} has one thread for all streams (each has its own since "
            f"{THREADED[0]}.{THREADED[1]}): one core may limit them."
            for host, says in versions.items()
            if not _is_threaded(says)
        )

    def measure(self, rank: Rank, params: IperfParams) -> None:
        """Run iperf3 on the hosts of the pair; all other ranks sleep until it is done."""
        server = rank.addresses()[params.pair[1]]
        member = rank.number in params.pair
        comm = rank.comm.Split(int(member), params.pair.index(rank.number) if member else 0)
        if member:
            half = IperfServer if rank.number == params.pair[1] else IperfClient
            half(rank, comm, server, params).run(self.selection(params))
        rank.barrier()


def _is_threaded(says: str) -> bool:
    """Read `iperf 3.12 (cJSON 1.7.15)`; an unreadable version counts as new."""
    version = re.match(r"iperf (\d+)\.(\d+)", says)
    return version is None or (int(version[1]), int(version[2])) >= THREADED


class IperfRank:
    """What a rank of the pair does in all tests; rank 0 of `comm` runs the clients."""

    def __init__(self, rank: Rank, comm: Comm, address: str, params: IperfParams) -> None:
        self.rank = rank
        self.comm = comm
        self.address = address
        self.params = params

    @property
    def limit(self) -> float:
        return self.params.seconds + self.params.omit + SLACK

    def run(self, definitions: tuple[Definition, ...]) -> None:
        args = self.params
        cells = [(definition, n) for definition in definitions for n in dict.fromkeys(args.streams)]
        for result, (definition, streams) in enumerate(cells):
            label = f"{definition.metric}, {streams} stream(s)"
            values = self.rank.begin(definition, {"streams": streams}, unit="B/s")
            for number in range(args.iterations):
                self.rank.progress(result + number / args.iterations, len(cells), label)
                trial = IperfTest(definition=definition, streams=streams, number=number + 1)
                values += self.once(trial)
            self.rank.end()
        self.rank.progress(len(cells), len(cells), label)

    def once(self, trial: IperfTest) -> list[float]:
        raise NotImplementedError


class IperfServer(IperfRank):
    """Starts a server for each test, and waits until the other rank connects at its end."""

    def once(self, trial: IperfTest) -> list[float]:
        argv = [IPERF, "-s", "-1", "-B", self.address, "-p", "PORT"]
        family = socket.getaddrinfo(self.address, 0, type=socket.SOCK_STREAM)[0][0]
        with (
            run_server(argv, self.address) as port,
            socket.create_server((self.address, 0), family=family) as end,
        ):
            end.settimeout(self.limit + 2 * END_WITHIN)
            self.comm.send((port, end.getsockname()[1]), dest=0)
            # Not by a message: MPI would report a killed rank before mpirun does.
            with suppress(TimeoutError):  # a firewall is between the hosts: the client went on
                connection = end.accept()[0]
                with connection, suppress(OSError):  # the other rank may have been killed
                    connection.sendall(ALIVE)
        return []


class IperfClient(IperfRank):
    """Connects to the server, and keeps the output of iperf3."""

    def once(self, trial: IperfTest) -> list[float]:
        params, path = self.params, Path(trial.file)
        port, end = self.rank.receive(self.comm, source=1)
        argv = [
            *(IPERF, "-c", self.address, "-p", str(port), "-J", "-P", str(trial.streams)),
            *("-t", str(params.seconds), "-O", str(params.omit)),
            *(["-R"] if trial.definition is REVERSE else []),
        ]
        try:
            status = run_program(argv, stdout=path, within=self.limit)
            if status is None:
                raise ClusterError(
                    f"{IPERF} did not end within {self.limit:g} s.",
                    means=f"A firewall may block {self.address}, TCP port {port}.",
                    remedy=f"Try it there: {IPERF} -s -p {port}; and here: "
                    f"{IPERF} -c {self.address} -p {port}",
                )
            value = read_result(path.read_text(errors="replace"), status)
        finally:
            self._end_test(end)
        self.rank.print_line(
            f"Process {self.rank.number} {trial.definition.metric}, {trial.streams} stream(s): "
            f"{format_value(value, 'B/s')}"
        )
        return [value]

    def _end_test(self, port: int) -> None:
        """Wait for the other rank's answer, also before a failure is reported.

        If that rank was killed, its iperf3 is gone too, which is why this rank's failed, and no
        answer comes. mpirun then ends this rank while it waits, and reports the signal. The
        answer is needed: Linux may accept a connection for a rank that it is just ending.
        """
        start = time.monotonic()
        answer = b""
        with (
            suppress(OSError),  # the rank was killed, or a firewall is between the hosts
            socket.create_connection((self.address, port), END_WITHIN) as connection,
        ):
            answer = connection.recv(len(ALIVE))
        if answer != ALIVE:
            time.sleep(max(0.0, start + END_WITHIN - time.monotonic()))


def read_result(text: str, status: int = 0) -> float:
    """Read the receiver's bytes per second from the output of an iperf3 client.

    Its exit status may be 0 although the test failed. ClusterError: the test failed, or nothing
    arrived. ParseError: it is not the output of iperf3.
    """
    try:
        document = msgspec.json.decode(text, type=IperfDocument)
    except msgspec.DecodeError as error:
        raise ParseError(
            f"{IPERF} ended with status {status}, and not in JSON: {error}",
            line=text.partition("\n")[0],
        ) from error
    figure = document.end.sum_received
    if document.error or status != 0:
        message = document.error or "nothing"
        raise ClusterError(f"{IPERF} ended with status {status}, and said: {message}")
    if figure is None or not figure.bytes or figure.seconds <= 0:
        raise ClusterError(
            f"{IPERF} reports that nothing arrived.",
            means="Connections were opened, but no data passed.",
            remedy="Compare the MTUs along the path: ping -M do -s 1472 ADDRESS",
        )
    return figure.bytes / figure.seconds


if __name__ == "__main__":
    main(Iperf())
