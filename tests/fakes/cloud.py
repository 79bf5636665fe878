"""What every test cloud has, whichever it plays: calls, faults, hosts, and a server on loopback."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_network
from itertools import islice
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from tests.fakes.faults import Faults, kill
from tests.fakes.hosts import Hosts, missing
from tests.fakes.network import Rules
from tests.fakes.values import Call, Fault, Thing

PUBLIC = ip_network("198.19.0.0/16")  # RFC 2544: no stranger's
NOWHERE = "203.0.113.7"  # the caller, as hosts that do not exist would see it: RFC 5737

S = TypeVar("S", bound=msgspec.Struct)
R = TypeVar("R")


class Listening(Protocol):
    """A server of HTTP that is closed in the end."""

    server_port: int

    def serve_forever(self, poll_interval: float = 0.5) -> None: ...

    def shutdown(self) -> None: ...

    def server_close(self) -> None: ...


class Emulated(Generic[S]):
    """A cloud on loopback; each instance may be a real host.

    Whoever plays one gives `_begin_anew`, `things`, `strangers`, `rules`, `environ`, `tick` and
    `_listener`, and calls `_listen` once it can answer.
    """

    settings: S
    public: Iterator[str]

    def __init__(self, *, hosts: bool = False, settings: S | None = None, port: int = 0) -> None:
        self.lock = threading.RLock()
        if hosts and (why := missing()):
            raise RuntimeError(why)
        self.hosts = Hosts(self) if hosts else None
        self.caller = self.hosts.caller if self.hosts else NOWHERE
        self.gaps: list[str] = []
        self.log: list[Call] = []
        self.faults = Faults()
        self._again: threading.Timer | None = None
        self.reset(settings)
        self._listen(port)

    def _listener(self, port: int) -> Listening:
        """Return what answers on a port, any that is free if it is 0, once it serves."""
        raise NotImplementedError

    def _listen(self, port: int) -> None:
        self._server = self._listener(port)
        self._port = self._server.server_port
        self.url = f"http://127.0.0.1:{self._port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def refuse(self, seconds: float) -> None:
        """Let nobody connect for a while."""
        self._stop_listening()
        self._again = threading.Timer(seconds, self._listen, [self._port])
        self._again.start()

    def _stop_listening(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def close(self) -> None:
        if self._again:
            self._again.join()
        self._stop_listening()
        if self.hosts:
            self.hosts.close()

    def reset(self, settings: S | None = None) -> None:
        raise NotImplementedError

    def _reset(self, settings: S) -> None:
        """Begin anew, with no fault."""
        if self.hosts:
            self.hosts.clear()
        with self.lock:
            self.public = self.hosts.addresses if self.hosts else islice(map(str, PUBLIC), 2, None)
            self.settings = settings
            self.faults = Faults()
            self.log = []  # a call that hangs still writes into its own
            self.gaps.clear()
            self._begin_anew()

    def _begin_anew(self) -> None:
        raise NotImplementedError

    @property
    def environ(self) -> dict[str, str]:
        """What a client needs in its environment."""
        raise NotImplementedError

    def things(self, *, foreign: bool = True) -> frozenset[Thing]:
        """List what exists; without the stranger's, if not `foreign`."""
        raise NotImplementedError

    def lose_tags(self, *kinds: str) -> None:
        """Take away what somebody may take away of the tags of ours, of some kinds or all."""
        raise NotImplementedError

    def rules(self, devices: Mapping[str, str]) -> Rules:
        """Tell who may reach whom, of instances that have a device each."""
        raise NotImplementedError

    def set(self, **changes: Any) -> None:
        """Change settings from now on."""
        with self.lock:
            self.settings = msgspec.structs.replace(self.settings, **changes)

    def fail(self, fault: Fault) -> None:
        """Harm calls."""
        with self.lock:
            self.faults.add(fault)

    def mend(self) -> None:
        """End all faults."""
        with self.lock:
            self.faults = Faults()

    def exchange(
        self,
        call: Call,
        execute: Callable[[Fault], R],
        outcome: Callable[[R], tuple[int, str]],
        ends: tuple[int, int],
    ) -> R | None:
        """Log a call, harm it as a test wants, and return its reply; None if that is to be lost.

        `outcome` returns the HTTP status of a reply, and the code of its error; `ends` are the
        ports of the connection, the caller's first.
        """
        with self.lock:
            log = self.log
            call = msgspec.structs.replace(call, number=len(log))
            log.append(call)
            harm = self.faults.match(call) or Fault(action="*")
        if harm.kill == "before":
            kill(*ends)
        if harm.refuse:
            self.refuse(harm.refuse)
        reply = None
        is_lost = "before" in (harm.drop, harm.kill) or bool(harm.refuse)
        if not is_lost:
            reply = execute(harm)
            time.sleep(harm.delay)
            if harm.kill == "after":
                kill(*ends)
            is_lost = "after" in (harm.drop, harm.kill)
        status, code = (0, "") if reply is None else outcome(reply)
        with self.lock:
            log[call.number] = msgspec.structs.replace(call, status=status, code=code, lost=is_lost)
        return None if is_lost else reply

    def calls(self, *actions: str) -> tuple[Call, ...]:
        with self.lock:
            return tuple(call for call in self.log if not actions or call.action in actions)

    def mutating(self) -> tuple[Call, ...]:
        """Return the calls that change something."""
        return tuple(call for call in self.calls() if call.mutating)

    def console(self, instance: str) -> str:
        """Return what an instance's host said."""
        return self.hosts.console(instance) if self.hosts else ""

    def running(self, instance: str) -> bool:
        """Tell whether an instance's host lives."""
        host = self.hosts.find(instance) if self.hosts else None
        return host is not None and host.running
