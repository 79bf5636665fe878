"""A run that others may see: values, definitions, parameters and facts, with pseudonyms."""

import functools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from cluster.agent.facts import SYSCTLS
from cluster.core import decoders
from cluster.core.errors import ClusterError
from cluster.core.model import hosts, logs
from cluster.core.model.hosts import PROCESS_FILE
from cluster.core.model.network.fleet import (
    ClassShare,
    FleetFinding,
    FleetVerdict,
    Part,
    Reason,
    Suspect,
)
from cluster.core.model.results.limits import Figure, Hardware
from cluster.core.model.results.measurements import Definition, Measurement, Planned
from cluster.core.model.results.records import ExpectedResult, Note, Record
from cluster.core.model.spec import ClusterSpec
from cluster.core.version import __version__
from cluster.logs.redaction import GONE, NAME, redact
from cluster.runs import store
from cluster.runs.run import (
    MEASUREMENTS,
    RAW,
    RECORD,
    SHARED_LOG,
    TOPOLOGY,
    Run,
    nccl_log,
    rank_processes,
    topologies,
)
from cluster.runs.shared_file import FORMAT, VERSION, SharedPart, SharedRun, digest, seal

V = TypeVar("V", bound=msgspec.Struct)
KEPT = frozenset(("localhost", "127.0.0.1", "0.0.0.0", "::1"))  # noqa: S104 - a word
IPV4 = re.compile(r"\d+(\.\d+){3}")
PROVIDERS = ("aws", "gcp", "imported", "kubernetes", "lab", "local", "log", "sim", "slurm", "ssh")
SHELLS = ("kubectl", "local", hosts.SIMULATED, "srun", "ssh")
ROOM = 250  # hosts in a block of pseudonymous addresses
LEFT_OUT = "…"  # stands for a word that was left out
_PACKAGE = Path(__file__).parents[1]
_SOURCES = (_PACKAGE, (_PACKAGE / "benchmarks").resolve())  # in a checkout, a link
_LETTERS = re.compile(r"[A-Za-z]{2,}")


class Names:
    """The pseudonyms of a run, and what was left out of it.

    `networks` keep the IPv4 addresses of one network in one; names in the `denylist` exist, and so
    are no pseudonyms.
    """

    def __init__(self, networks: Mapping[str, str], denylist: frozenset[str] = frozenset()) -> None:
        self.pseudonyms: dict[tuple[str, str], str] = {}
        self.left_out: Counter[str] = Counter()
        self.definitions: dict[str, str] = {}  # ids: they change with the words
        self._networks = networks
        self._denylist = denylist
        self._counts: Counter[str] = Counter()

    @property
    def originals(self) -> frozenset[str]:
        return frozenset(original for _, original in self.pseudonyms)

    def pseudonym(self, kind: str, original: str) -> str:
        """Return the pseudonym of a name: the same name of a kind always has the same one."""
        key = kind, original
        while key not in self.pseudonyms:
            pseudonym = self._make_pseudonym(kind, original)
            if pseudonym not in self._denylist:
                self.pseudonyms[key] = pseudonym
        return self.pseudonyms[key]

    def _make_pseudonym(self, kind: str, original: str) -> str:
        if kind == "address" and IPV4.fullmatch(original):
            network = self._networks.get(original, "")
            number = self.pseudonym("network", f"network {network}").removeprefix("network")
            self._counts[network] += 1
            high, low = divmod(self._counts[network], ROOM)
            return f"10.{number}.{high}.{low + 1}"
        self._counts[kind] += 1
        return f"{kind}{self._counts[kind]}"

    def hides(self, text: str) -> bool:
        """Tell whether a text has a name that exists as a word of its own."""
        return not self._denylist.isdisjoint(re.split(r"[^\w.-]+", text))


Rule = Callable[[Names, str], str | None]
"""What becomes of a text; None: it is left out."""


class Keyed(NamedTuple):
    """What becomes of the keys and of the values of a dictionary."""

    key: Rule
    value: Rule | None = None


def _choice(_: Names, text: str) -> str:
    """Keep one of a few words, to which the type of the field holds it."""
    return text


def _drop(_: Names, __: str) -> None:
    return None


def _words(names: Names, text: str) -> str:
    return " ".join("…" if names.hides(word) else plain(word) for word in text.split())


def _whole(names: Names, text: str) -> str | None:
    return text if is_plain(text) and not names.hides(text) else None


def _name(kind: str) -> Rule:
    return lambda names, text: text if not text or text in KEPT else names.pseudonym(kind, text)


def _known_or(kind: str) -> Rule:
    return lambda names, text: text if is_plain(text) else names.pseudonym(kind, text)


def _parameter(names: Names, text: str) -> str | None:
    return text if text in ("hosts", "nodes", "node") else _known_or("parameter")(names, text)


def _rule(pattern: str, other: str | None = None) -> Rule:
    form = re.compile(pattern, re.ASCII)
    return lambda _, text: text if form.fullmatch(text) else other


def _definition(names: Names, id_: str) -> str:
    return names.definitions.get(id_) or (names.pseudonym("definition", id_) if id_ else "")


def _endpoint(names: Names, text: str) -> str:
    address, _, port = text.rpartition(":")
    number = port if re.fullmatch(r"\d{1,5}", port) else "0"
    return f"{_name('address')(names, address)}:{number}"


def _one_of(kind: str, *words: str) -> Rule:
    return lambda names, text: text if text in words else names.pseudonym(kind, text)


def _starter(_: Names, word: str) -> str | None:
    """Keep how the ranks were started, the first word of the command."""
    program = word.rpartition("/")[2]
    return program if program in ("mpirun", "mpiexec", "srun", "torchrun", "aprun") else None


HOST, ADDRESS, ID = _name("host"), _name("address"), _name("id")
METRIC, BENCHMARK = _known_or("metric"), _known_or("benchmark")
POINT = Keyed(_parameter, _known_or("value"))
WORDS = Keyed(_whole, _words)
VARIABLES = Keyed(_whole, _whole)
PCI = _rule(r"\d[0-9a-fA-F]{0,6}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d", "")
NUMBERS = _rule(r"(\d{1,4}([,-]\d{1,4}){0,200})?", "")
PATH = _rule(r"[A-Z]{1,5}\d{0,3}|\d{1,3}|\?", "?")
DEVICE = _rule(r"(GPU|NUMA|core)\d{1,4}", "")
VIA = _rule(r"(P2P|SHM|NET|COLLNET|NVLS)(/[A-Za-z0-9 ]{1,12}){0,5}", "")
INSTANCE = _rule(
    r"[a-z]{1,4}\d[a-z0-9-]{0,7}\.(\d{1,2}x)?(nano|micro|small|medium|large|xlarge|metal)(-\d+xl)?"
    r"|[a-z]\d[a-z]?-(standard|highmem|highcpu|highgpu|megagpu|ultragpu|edgegpu)-\d{1,3}g?"
)
TEXTS: Mapping[type[msgspec.Struct], Mapping[str, Rule | Keyed]] = {
    Record: {
        "benchmark": BENCHMARK,
        "status": _choice,
        "command": _starter,
        "definitions": _drop,
        "notes": _whole,
        "phases": Keyed(_whole),
        "receipt": _drop,
        "reason": _whole,
        "software": _rule(r"\d{1,3}(\.\d{1,3}){1,2}(\.?(dev|rc|a|b)\d{1,4})?"),
        "revision": _rule(r"[0-9a-f]{8}"),
        "variables": VARIABLES,
        "condition": _known_or("condition"),
        "launch_of": ID,
    },
    ClusterSpec: {
        "name": _name("cluster"),
        "provider": _one_of("provider", *PROVIDERS),
        "instance": INSTANCE,
        "accelerator": _rule(r"[a-z]{1,6}-?[a-z]{0,6}-?[a-z]?\d{1,4}(-\d+gb)?:\d{1,2}"),
    },
    ExpectedResult: {"unit": _whole},
    hosts.Machine: {"name": HOST, "address": ADDRESS, "shell": _one_of("shell", *SHELLS)},
    hosts.Link: {"source": _words, "fabric": _whole},
    hosts.Facts: {
        **dict.fromkeys(("system", "kernel", "cpu", "clock", "python", "mpi", "tmux"), _words),
        **dict.fromkeys(("gpus", "gpu_driver", "gpu_slots", "gpu_modules"), _words),
        "host": HOST,
        "libraries": WORDS,
        "variables": VARIABLES,
        "reached": ADDRESS,
        "boot": ID,
        "programs": WORDS,
        "mpi_flags": WORDS,
    },
    hosts.Interface: {"name": _known_or("interface"), "address": ADDRESS, "slot": _words},
    hosts.Tuning: {
        **dict.fromkeys(("governor", "huge_pages", "board", "firmware", "storage"), _words),
        "numa": Keyed(_rule(r"node\d{1,3}"), NUMBERS),
        "sysctls": Keyed(_rule("|".join(map(re.escape, SYSCTLS))), _words),
        "microcode": _rule(r"0x[0-9a-f]{1,10}"),
    },
    Definition: {
        **dict.fromkeys(("what", "clock", "synchronisation", "warm_up"), _words),
        **dict.fromkeys(("better", "aggregation", "flow", "kernel", "buffer"), _choice),
        **dict.fromkeys(("factor", "rate", "medium"), _choice),
        "benchmark": BENCHMARK,
        "metric": METRIC,
        "unit": _known_or("unit"),
        "rate_of": _definition,
    },
    Measurement: {
        "metric": METRIC,
        "definition": _definition,
        "unit": _known_or("unit"),
        "params": POINT,
        "host": HOST,
    },
    Planned: {"metric": METRIC, "params": POINT},
    Hardware: {"name": _known_or("hardware"), "gpu": _words},
    Figure: {"source": _words, "threshold": _whole},
    FleetVerdict: {**dict.fromkeys(("verdict", "metric"), _choice), "replaced": _drop},
    FleetFinding: {
        **dict.fromkeys(("kind", "direction"), _choice),
        "part": _rule(r"[a-z]{1,10}(:\d+([.-]\d+)*)?", "fabric"),
        "name": HOST,
        "step": _drop,
    },
    Part: {"kind": _choice, **dict.fromkeys(("device", "other"), DEVICE)},
    Reason: {"code": _choice},
    ClassShare: {"path": PATH},
    Suspect: dict.fromkeys(("direction", "twins"), _choice),
    hosts.RankProcess: {"host": HOST, "boot": ID, "sent": _drop},
    hosts.Connection: {"here": _endpoint, "there": _endpoint},
    logs.Parsed: {
        **dict.fromkeys(("title", "failures", "devices"), _words),
        "format": _known_or("format"),
        "notes": _whole,
        "operation": _known_or("value"),
    },
    logs.Setting: {"name": _words, "value": _words},
    Note: {"kind": _choice, **dict.fromkeys(("values", "title"), _words)},
    logs.Device: {"name": _words, "paths": PATH, "cpus": NUMBERS, "numa": NUMBERS, "model": _words},
    logs.PeerAccess: {"devices": _words, "status": _rule(r"[A-Z]{1,3}", "?")},
    logs.NcclEdge: {"transport": _rule("P2P|SHM|NET|COLLNET|NVLS", ""), "via": VIA},
    logs.NcclRank: {"host": HOST, "bus": PCI, "place": PCI},
    logs.NcclLog: {
        **dict.fromkeys(("versions", "networks", "interfaces"), _words),
        "warnings": _whole,
    },
    logs.Symptom: {"kind": _whole, "text": _words, "value": _whole},
    logs.Routine: {"name": _rule(r"MPIX?_[A-Za-z_]{1,40}", "MPI_other")},
    logs.RoleTime: {"role": _words},
    logs.TaskTimes: {"host": HOST},
    logs.ProfileSection: {"kind": _words, "name": _words},
    logs.Profile: {**dict.fromkeys(("region", "context", "roles"), _words)},
}


def sanitize(value: V, names: Names) -> V:
    rules = TEXTS.get(type(value), {})
    fields = {}
    for field in msgspec.structs.fields(type(value)):
        old = getattr(value, field.name)
        new = _new(old, rules.get(field.name), names)
        if new is None and old is not None:
            names.left_out[f"{type(value).__name__}.{field.name}"] += 1
            if not field.required:
                continue
            new = type(old)()
        fields[field.name] = new
    return type(value)(**fields)


def _new(old: Any, rule: Rule | Keyed | None, names: Names) -> Any:  # noqa: ANN401 - any field
    """Return what becomes of a value; None if it is left out."""
    if rule is _drop:
        return None
    if isinstance(old, msgspec.Struct):
        return sanitize(old, names)
    if isinstance(old, list | tuple):
        new = [_new(item, rule, names) for item in old]
        return tuple(item for item in new if item is not None)
    if isinstance(old, dict) and isinstance(rule, Keyed):
        new_items = {rule.key(names, k): _new(v, rule.value, names) for k, v in old.items()}
        return {k: v for k, v in new_items.items() if k is not None and v is not None}
    if isinstance(old, str) and callable(rule):
        return rule(names, old)
    # A text, a dictionary or raw JSON without a rule; an empty one says nothing.
    return old if not old or isinstance(old, bool | int | float) else None


def shared_definitions(originals: Mapping[str, Definition], names: Names) -> dict[str, Definition]:
    """Return definitions by their ids, which are those of what is left of their words."""
    definitions = {}
    for id_, old in sorted(originals.items(), key=lambda item: bool(item[1].rate_of)):
        new = sanitize(old, names)
        names.definitions[id_] = new.id
        definitions[new.id] = new
    return definitions


def shared_json(value: Any, names: Names) -> Any:  # noqa: ANN401 - any JSON
    """Return parameters of a benchmark with what of them may be shared."""
    if isinstance(value, str):
        return _whole(names, value)
    if isinstance(value, list):
        return [new for item in value if (new := shared_json(item, names)) is not None]
    if isinstance(value, dict):
        return {k: shared_json(v, names) for k, v in value.items() if _whole(names, k)}
    return value


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Of hosts, users and sites, in examples and at the ends of addresses.
_NAMES = _word_set(
    """
    alice bastion bob carol cn com corp de dgx edu example gov head home host hosts id
    internal io ip jump lan local localhost login mars me mil mine net node nodes org prod
    rack root secret site test1 tmp user username users venus vm worker workers
    """
)
# Before a number, these name no host.
_LOWER = _word_set(
    """
    amd arm bf bond btl cuda deb enp ens eth ext ffs float fp hfi hsn ib ibp int iperf irdma lo
    mlx mpi nvme p read roce rocep rocm sm tcp uint usnic v write x xfs
    """
)
# Of processors and systems, which the sources do not have.
_MORE = _word_set(
    """
    almalinux altra ampere aws bookworm bronze bullseye centos cortex enterprise fedora
    focal gcp gold graviton hat jammy leap lts neoverse noble platinum red rocky ryzen
    server silver sles suse threadripper trixie
    """
)
_SPECIAL = _word_set("d2d d2h h2d k8s mpi4py mpi_test p2p pt2pt x86")
# In an identifier such as `host_to_device`; no host has a `_` in its name.
_TECHNICAL = _word_set("host hosts id io ip local net node nodes")
_IDENTIFIER = re.compile(r"[a-z]+(?:_[a-z0-9]+)+")
_NUMBER = re.compile(r"[vV]?[-+]?\d{1,7}(?:\.\d{1,6}){0,2}(?:e[-+]?\d{1,3})?[%A-Za-z]{0,3}\d{0,2}")
_MODEL = re.compile(r"[A-Z]{1,4}\d{1,5}[A-Za-z]{0,3}\d{0,2}")  # H100, MI210, SXM4, GPU0
_MIXED = re.compile(r"([a-z]+)\d{1,3}(?:[a-z]{1,3}\d{0,3}){0,3}")  # mlx5, eth0, nvme0n1
_EDGES = "()[]{}<>,;:!?'\"|"
_PARTS = re.compile(r"[-_+=:,()\[\]@/&*]")
_PATH = re.compile(r"^[/~.]|//|/$|\\|@|/.*/.*/")
_ADDRESS = re.compile(r"\d+(?:\.\d+){3}|\d+(?:[-_]\d+){3}|:.*:")
_MOST_DIGITS = 7  # an account of a cloud has twelve


def is_plain(text: str) -> bool:
    return all(map(_is_plain_word, text.split()))


def plain(text: str) -> str:
    """Return a text without the words that might name somebody."""
    return " ".join(word if _is_plain_word(word) else LEFT_OUT for word in text.split())


def _is_plain_word(word: str) -> bool:
    core = word.strip(_EDGES).removesuffix(".")
    if not core or core in "-=+/&*%@":
        return word.isascii() and word.isprintable()
    if not core.isascii() or _PATH.search(core) or _ADDRESS.search(core):
        return False
    parts = [part for part in _PARTS.split(core) if part]
    if _IDENTIFIER.fullmatch(core):
        parts = [part for part in parts if part not in _TECHNICAL]
    if not all(map(_is_plain_part, parts)):
        return False
    # Names of hosts end in a number: dgx-03, a100-2.
    is_like_host = core[0].islower() and "-" in core and core[-1].isdigit()
    return not is_like_host


def _is_plain_part(part: str) -> bool:
    if part in _SPECIAL or _NUMBER.fullmatch(part) or _MODEL.fullmatch(part):
        return True
    if match := _MIXED.fullmatch(part):
        return match[1] in _LOWER
    return all(_is_known(label) for label in part.split("."))


def _is_known(word: str) -> bool:
    if word.isdigit():
        return len(word) <= _MOST_DIGITS
    stem, lower = word.rstrip("0123456789"), word.lower()
    if stem != word:
        return stem.lower() in _LOWER
    return word.isalpha() and lower not in _NAMES and (len(word) == 1 or lower in _vocabulary())


@functools.cache
def _vocabulary() -> frozenset[str]:
    """Return the words of cluster's own sources: 0.2 s."""
    kinds = ("*.py", "*.toml", "*.c")
    files = (path for folder in _SOURCES for kind in kinds for path in folder.rglob(kind))
    texts = (path.read_text(errors="ignore") for path in files)
    return _MORE.union(word.lower() for text in texts for word in _LETTERS.findall(text))


CRATE = "ro-crate-metadata.json"
JSON = (".json", ".jsonl")


class Replacement(NamedTuple):
    """A name that was replaced."""

    kind: str
    original: str
    pseudonym: str


class Prepared(NamedTuple):
    """A shared run, and what its owner must know about it."""

    run: SharedRun
    replacements: tuple[Replacement, ...]
    left_out: tuple[str, ...]


def prepare(folder: Path, *, with_logs: bool = False) -> Prepared:
    """Put what of a run may be shared into one value; names in logs stay (ClusterError)."""
    run = store.read(folder)
    networks = {i.address: i.network for facts in run.record.environment for i in facts.interfaces}
    first = Names(networks)
    _texts(run, first)  # finds all names, so that none of them becomes a pseudonym
    names = Names(networks, first.originals)
    texts = _texts(run, names)
    if with_logs:
        texts = {**dict(_logs(folder)), **texts}
    parts = tuple(SharedPart(name=name, text=text) for name, text in sorted(texts.items()))
    record = decoders.decode(texts[RECORD], Record)
    files: list[Mapping[str, object]] = [
        {
            "@id": part.name,
            "@type": "File",
            "name": PurePosixPath(part.name).name,
            "contentSize": str(len(part.text.encode())),
            "sha256": digest(part.text.encode()),
        }
        for part in parts
    ]
    # RO-Crate 1.1, https://w3id.org/ro/crate/1.1
    spec = {"@id": "https://w3id.org/ro/crate/1.1"}
    metadata = {"@id": CRATE, "@type": "CreativeWork", "conformsTo": spec, "about": {"@id": "./"}}
    logs = ", but those in the logs are not" if with_logs else ""
    dataset = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{record.benchmark} of {record.id}",
        "description": f"A run of cluster-ruler; names and addresses are pseudonyms{logs}.",
        "version": __version__,
        "hasPart": [{"@id": file["@id"]} for file in files],
    }
    graph = {"@context": "https://w3id.org/ro/crate/1.1/context"}
    crate = _json({**graph, "@graph": [metadata, dataset, *files]})
    parts = (*parts, SharedPart(name=CRATE, text=crate))
    shared_run = SharedRun(
        format=FORMAT, version=VERSION, simulated=run.record.simulated, parts=parts
    )
    replacements = (
        Replacement(kind, original, pseudonym)
        for (kind, original), pseudonym in names.pseudonyms.items()
        if kind != "network"
    )
    return Prepared(seal(shared_run), tuple(replacements), tuple(names.left_out))


def _texts(run: Run, names: Names) -> dict[str, str]:
    """Return the files of the shared run: each is written from values, never copied."""
    record = run.record
    definitions = shared_definitions(record.definitions, names)
    pseudonymous = sanitize(record, names)
    for field in ("Record.id", "Record.params", "Record.definitions"):  # they are made anew
        names.left_out.pop(field, None)
    params = msgspec.json.decode(record.params)
    new = shared_json(params, names)
    is_named = isinstance(params, dict)
    keys = [key for key in params if params[key] != new.get(key)] if is_named else []
    keys += [key for key in record.variables if key not in pseudonymous.variables]
    notes = [*pseudonymous.notes, *([Note("not_shared", (len(keys),))] if keys else [])]
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(record.at))
    record = replace(
        pseudonymous,
        id=f"{stamp}-{pseudonymous.benchmark}",
        params=msgspec.Raw(msgspec.json.encode(new)),
        definitions=definitions,
        notes=tuple(notes),
    )
    texts = {
        RECORD: _json(record),
        MEASUREMENTS: "".join(f"{_json(sanitize(m, names))}\n" for m in run.measurements),
    }
    if run.results:
        results = (sanitize(replace(r, measurements=()), names) for r in run.results)
        texts[store.RESULTS] = "".join(f"{_json(result)}\n" for result in results)
    if run.fleet:
        fleet = sanitize(run.fleet, names)
        bad = ", ".join(part.name or part.part for part in fleet.blamed) or "nothing is blamed"
        answer = f"{fleet.verdict}: {bad}, by {fleet.tests} tests in {fleet.rounds} rounds"
        texts[store.VERDICT] = _json(replace(fleet, answer=answer))
    raw = run.folder / RAW
    for process in rank_processes(raw):
        texts[f"{RAW}/{PROCESS_FILE.format(rank=process.rank)}"] = _json(sanitize(process, names))
    for host, topology in topologies(raw).items():
        stem = f"{TOPOLOGY}{names.pseudonym('host', host)}"
        texts[f"{RAW}/{stem}.json"] = _json(sanitize(topology, names))
    if log := nccl_log(raw):
        texts[f"{RAW}/{SHARED_LOG}"] = _json(sanitize(log, names))
    return texts


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _logs(folder: Path) -> Iterator[tuple[str, str]]:
    """Read the logs of a run without secrets; names stay in them."""
    for path in sorted((folder / RAW).rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            problem = "cannot be read" if isinstance(error, OSError) else "is no text"
            raise ClusterError(
                f"{name} {problem}, so secrets cannot be taken out of it.",
                remedy="Share the run without its logs: leave --with-logs out",
            ) from error
        if not name.isprintable():
            raise ClusterError(
                f"The name of {name!r} has control characters.", remedy="Rename it, or remove it."
            )
        is_json = path.suffix in JSON
        yield (
            name,
            "".join(map(_redacted_json, text.splitlines(True))) if is_json else _redact(text),
        )


def _redact(text: str) -> str:
    return b"".join(redact([text.encode()])).decode()


def _redacted_json(text: str) -> str:
    """Take secrets out of the values of a document, or of one per line, so that it stays one."""
    for portions in ([text], text.splitlines(keepends=True)):
        try:
            values = [msgspec.json.decode(portion) for portion in portions]
        except (msgspec.DecodeError, RecursionError):
            continue
        triples = zip(portions, values, map(_without_secrets, values), strict=True)
        return "".join(old if new == value else f"{_json(new)}\n" for old, value, new in triples)
    return _redact(text)


def _without_secrets(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {_redact(k): _without_secrets(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item, key) for item in value]
    if isinstance(value, str):
        return GONE if value and NAME.search(key) else _redact(value)
    return value
