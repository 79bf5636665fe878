"""What every test cloud has, whichever it plays: calls, faults, hosts, and a server on loopback."""

from __future__ import annotations

import threading
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from tests.fakes.faults import Faults
from tests.fakes.hosts import Hosts, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from tests.fakes.network import Rules
    from tests.fakes.values import Call, Fault, Thing

PUBLIC = list(ip_network("198.19.0.0/16"))[2:]  # RFC 2544: no stranger's
NOWHERE = "203.0.113.7"  # the caller, as hosts that do not exist would see it: RFC 5737

S = TypeVar("S", bound=msgspec.Struct)


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
        """Stop listening, and leave nothing."""
        if self._again:
            self._again.join()
        self._stop_listening()
        if self.hosts:
            self.hosts.close()

    def reset(self, settings: S | None = None) -> None:
        """Begin anew."""
        raise NotImplementedError

    def _reset(self, settings: S) -> None:
        """Begin anew, with no fault."""
        if self.hosts:
            self.hosts.clear()
        with self.lock:
            self.public = self.hosts.addresses if self.hosts else map(str, PUBLIC)
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

    def things(self, *, theirs: bool = True) -> frozenset[Thing]:
        """List what exists; without the stranger's, if not `theirs`."""
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

    def calls(self, *actions: str) -> tuple[Call, ...]:
        """Return the calls that came, all or some."""
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
        host = self.hosts.of(instance) if self.hosts else None
        return host is not None and host.running

    def peer(self) -> None:
        """Let private addresses be reached from here, as over a VPN."""
        if self.hosts:
            self.hosts.peer()
