"""The factors of runs, by the names of flags, that may explain why two groups differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from cluster.core.model.hosts import Facts
from cluster.core.model.results.records import Record
from cluster.core.model.value import Value

MCA = "OMPI_MCA_"  # what Open MPI calls its parameters in the environment
DEFINITION = "definition."  # before a metric
NONE = "-"  # the value of a factor that a run does not have
# Facts that identify a host, and do not explain its speed.
IDENTITY = {"host", "home", "user", "reached", "boot", "interfaces", "executable", "topology"}


class Factor(Value, frozen=True, kw_only=True):
    """A setting that differs between two groups of runs."""

    name: str  # such as `placement`, `env:NAME`, `host.kernel`
    base: str
    other: str  # its value or values in the second


def differing_factors(base: Iterable[Record], other: Iterable[Record]) -> tuple[Factor, ...]:
    first, second = ([dict(factors(record)) for record in records] for records in (base, other))
    names = dict.fromkeys(name for record in (*first, *second) for name in record)
    pairs = ((name, _values(name, first), _values(name, second)) for name in names)
    return tuple(Factor(name=name, base=a, other=b) for name, a, b in pairs if a != b)


def _values(name: str, records: Iterable[Mapping[str, str]]) -> str:
    """Join the values of a factor; a run that did not measure a metric does not define it."""
    values = {record.get(name, NONE) for record in records}
    if name.startswith(DEFINITION) and len(values) > 1:
        values.discard(NONE)
    return " | ".join(sorted(values))


def factors(record: Record) -> Iterator[tuple[str, str]]:
    """Return every setting that may have affected the numbers of a run."""
    yield "benchmark", record.benchmark
    if record.condition:
        yield "condition", record.condition
    yield from flat("", msgspec.to_builtins(record.spec), leave={"name"})
    yield from flat("", msgspec.json.decode(record.params))
    yield "order", "near" if record.order else "given"
    for name, value in record.variables.items():
        mca = name.startswith(MCA)
        yield (f"mca:{name.removeprefix(MCA)}" if mca else f"env:{name}"), value
    yield from _hosts(record.environment)
    links = [
        {} if machine.link is None else dict(flat("link", msgspec.to_builtins(machine.link)))
        for machine in record.machines
    ]
    for name in dict.fromkeys(name for link in links for name in link):
        yield name, _values(name, links)
    for definition in record.definitions.values():
        yield f"{DEFINITION}{definition.metric}", definition.id
    yield "notes", " ".join(map(str, record.notes)) or NONE
    yield "cluster", record.software
    yield "revision", record.revision or NONE


def flat(prefix: str, values: object, leave: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Name each value of nested objects by its path."""
    if isinstance(values, dict):
        for key, value in values.items():
            if key not in leave:
                yield from flat(f"{prefix}.{key}" if prefix else key, value)
    else:
        yield prefix, _text(values)


def _text(value: object) -> str:
    if value is None or value in ([], ()):
        return NONE
    if isinstance(value, list | tuple):
        return ",".join(_text(part) for part in value)
    return str(int(value) if isinstance(value, bool) else value)


def _hosts(environment: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """Return the facts of the hosts: one value where all hosts are alike."""
    hosts = [dict(flat("", msgspec.to_builtins(facts), leave=IDENTITY)) for facts in environment]
    for name in dict.fromkeys(name for host in hosts for name in host):
        yield f"host.{name}", _values(name, hosts)
    for field in ("mtu", "speed"):
        texts = {_text(getattr(i, field)) for facts in environment for i in facts.interfaces}
        yield f"host.interfaces.{field}", " | ".join(sorted(texts)) or NONE
