"""The frozen values: their rules, and that they are strict."""

import hashlib
import inspect
import json
import re

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.core.model import hosts, resources, spec
from cluster.core.model.hosts import Layout, Machine
from cluster.core.model.results import limits, measurements, records
from cluster.core.model.results.measurements import Definition, Measurement
from cluster.core.model.spec import ClusterSpec, check_count, check_name
from cluster.core.model.value import Value
from tests.snapshots import Snapshot

VALUES = [
    kind
    for module in (resources, limits, hosts, measurements, records, spec)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, Value) and kind.__module__ == module.__name__
]
WORDS = {
    "benchmark": "p2p",
    "metric": "latency",
    "unit": "s",
    "better": "lower",
    "what": "half of a round trip",
    "clock": "a clock",
    "synchronisation": "a barrier",
    "warm_up": "100 round trips",
    "aggregation": "one rank",
    "flow": "one way",
    "kernel": "C",
    "buffer": "cuda",
    "factor": "1",
    "rate": "bus",
    "rate_of": "p2p.latency-00000000",
    "medium": "network",
}
LATER = (  # what older runs do not have
    *("flow", "kernel", "buffer", "factor", "rate", "rate_of", "medium"),
)
OTHER_WORDS = {
    "benchmark": "p2q",
    "metric": "latence",
    "unit": "B/s",
    "better": "higher",
    "what": "half of a round trip.",
    "clock": "another clock",
    "synchronisation": "",
    "warm_up": "101 round trips",
    "aggregation": "each rank",
    "flow": "",
    "kernel": "",
    "buffer": "",
    "factor": "",
    "rate": "",
    "rate_of": "",
    "medium": "",
}


def definition(**words: str) -> Definition:
    return msgspec.convert({**WORDS, **words}, Definition)


@pytest.mark.parametrize(
    "name", ["a", "0", "mpi_test", "A-b_C-9", "a-", "a_", "x" * 30, "latest", "9" * 30]
)
def test_good_names(name: str) -> None:
    assert check_name(name) == name
    assert ClusterSpec(name=name).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "x;reboot",
        "a.b",
        "a:0",
        "a/b",
        "..",
        "a b",
        "a\n",
        "\na",
        "a\0",
        "-a",
        "_a",
        "=a",
        "$a",
        "a'",
        "é",
        "٣",
        "x" * 31,
    ],
)
def test_bad_names_are_refused_with_the_rule(name: str) -> None:
    """Nothing that a shell, tmux, a path or a cloud could take for something else is a name."""
    with pytest.raises(SpecError, match=re.escape(repr(name))) as error:
        ClusterSpec(name=name)

    assert "29" in error.value.means
    assert "mpi_test" in error.value.remedy


@pytest.mark.parametrize("count", [1, 2, 100_000])
def test_good_counts(count: int) -> None:
    assert check_count("hosts", count) == count
    assert ClusterSpec(name="a", hosts=count).hosts == count
    assert ClusterSpec(name="a", ranks_per_host=count).ranks_per_host == count


@pytest.mark.parametrize("count", [0, -1, 100_001])
def test_bad_counts_are_refused_by_the_name_of_their_flag(snapshot: Snapshot, count: int) -> None:
    with snapshot.raises(SpecError):
        ClusterSpec(name="a", hosts=count)
    with snapshot.raises(SpecError):
        ClusterSpec(name="a", ranks_per_host=count)


def test_what_is_not_asked_for() -> None:
    assert msgspec.to_builtins(ClusterSpec(name="a")) == {
        "name": "a",
        "provider": "local",
        "hosts": 2,
        "ranks_per_host": 1,
        "placement": False,
        "instance": None,
        "zone": None,
        "image": None,
        "spot": False,
        "accelerator": None,
        "ttl": None,
        "max_cost": None,
        "idle": None,
        "options": {},
        "groups": {},
    }


@pytest.mark.parametrize(
    "kind",
    [
        *(Layout, Measurement, measurements.Summary, resources.Plan, measurements.Output),
        *(Machine, hosts.Link, Definition, hosts.Facts),
    ],
)
def test_what_need_not_be_said(kind: type[Value], snapshot: Snapshot) -> None:
    fields = [field for field in msgspec.structs.fields(kind) if not field.required]

    snapshot(f"{field.name} = {field.default!r}" for field in fields)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (records.Status, ["planned", "running", "done", "failed", "interrupted"]),
        (measurements.Aggregation, ["each rank", "one rank", "slowest rank"]),
        (measurements.Flow, ["", "one way", "both ways"]),
    ],
)
def test_these_words_are_in_files_that_exist(kind: object, words: list[str]) -> None:
    assert [msgspec.convert(word, kind) for word in words] == words
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert("other", kind)


def test_specs_do_not_share_their_options() -> None:
    first, second = ClusterSpec(name="a"), ClusterSpec(name="b")

    assert first.options is not second.options


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_is_frozen_and_strict(kind: type[Value]) -> None:
    assert kind.__struct_config__.frozen
    # Runs of the first revisions have figures with fields that nobody reads any more.
    assert kind.__struct_config__.forbid_unknown_fields or kind.__name__ == "Figure"


@pytest.mark.parametrize("kind", [v for v in VALUES if v is not records.Note])  # its kind is first
def test_every_value_is_keyword_only(kind: type[Value]) -> None:
    with pytest.raises(TypeError, match="positional"):
        kind("x")


@pytest.mark.parametrize("field", ["name", "hosts", "options"])
def test_a_value_cannot_be_changed(field: str) -> None:
    spec = ClusterSpec(name="a")

    with pytest.raises(AttributeError):
        setattr(spec, field, getattr(spec, field))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"name": "a", "host": 2}', "unknown field `host`"),
        ('{"name": "a", "hosts": "2"}', "Expected `int`"),
        ('{"name": "a", "hosts": 2.5}', "Expected `int`"),
        ('{"name": "a", "placement": 1}', "Expected `bool`"),
        ('{"hosts": 2}', "missing required field `name`"),
        ('{"name": "a"', "truncated"),
    ],
)
def test_decoding_is_strict(text: str, complaint: str) -> None:
    with pytest.raises(msgspec.DecodeError, match=complaint):
        msgspec.json.decode(text, type=ClusterSpec)


def test_a_machine_survives_json() -> None:
    machine = Machine(  # noqa: S604 - "shell" names one of our plug-ins
        name="0.mpi.a", id="i-0", address="10.0.0.1", shell="local", folder="/x", bin="/y"
    )

    assert msgspec.json.decode(msgspec.json.encode(machine), type=Machine) == machine


def test_a_definition_id_names_the_metric_and_hashes_every_word() -> None:
    text = json.dumps(WORDS, separators=(",", ":")).encode()
    digest = hashlib.blake2s(text, digest_size=4).hexdigest()

    assert definition().id == f"p2p.latency-{digest}"


def test_the_words_of_this_test_are_all_the_words_of_a_definition() -> None:
    assert tuple(WORDS) == Definition.__struct_fields__
    assert set(OTHER_WORDS) == set(WORDS)


@pytest.mark.parametrize("field", sorted(OTHER_WORDS))
def test_a_definition_id_changes_when_a_word_does(field: str) -> None:
    assert definition(**{field: OTHER_WORDS[field]}).id != definition().id


def test_a_definition_of_before_keeps_its_id() -> None:
    """The measurements of older runs name it."""
    old = json.dumps({k: WORDS[k] for k in WORDS if k not in LATER}, separators=(",", ":"))
    digest = hashlib.blake2s(old.encode(), digest_size=4).hexdigest()

    assert msgspec.json.decode(old, type=Definition).id == f"p2p.latency-{digest}"
    assert msgspec.json.encode(msgspec.json.decode(old, type=Definition)).decode() == old


def test_equal_definitions_have_one_id() -> None:
    assert definition().id == definition().id


def measurement(rank: int, **params: int) -> Measurement:
    return Measurement(
        metric="latency",
        definition="p2p.latency-00000000",
        unit="s",
        params=dict(params),
        rank=rank,
        host="h",
        values=(1.0,),
    )


def test_the_key_of_a_measurement_is_its_definition_rank_and_point() -> None:
    keys = {measurement(rank, size=size).key for rank in (0, 1) for size in (8, 16)}

    assert len(keys) == 4
    assert measurement(0, size=8, window=64).key == measurement(0, window=64, size=8).key


@pytest.mark.parametrize(
    ("addresses", "ranks", "slots"),
    [
        (("a",), 1, {"a": 1}),
        (("a", "b"), 1, {"a": 1, "b": 1}),
        (("b", "a"), 2, {"b": 2, "a": 2}),
        (("a", "a"), 1, {"a": 2}),
        (("a", "a", "b"), 3, {"a": 6, "b": 3}),
    ],
)
def test_slots_and_size(addresses: tuple[str, ...], ranks: int, slots: dict[str, int]) -> None:
    layout = Layout(addresses=addresses, ranks_per_host=ranks)

    assert layout.slots == slots
    assert list(layout.slots) == list(slots)
    assert layout.size == len(addresses) * ranks


@pytest.mark.parametrize(
    ("addresses", "ranks", "places"),
    [
        (("a", "b"), 1, ("a", "b")),
        (("b", "a"), 2, ("b", "b", "a", "a")),
        (("a", "a", "b"), 1, ("a", "a", "b")),
        (("a", "b", "a"), 1, ("a", "a", "b")),
    ],
)
def test_a_rank_is_where_the_slots_put_it(
    addresses: tuple[str, ...], ranks: int, places: tuple[str, ...]
) -> None:
    """The order of mpirun: all ranks of the first address, whenever it comes again."""
    assert Layout(addresses=addresses, ranks_per_host=ranks).places == places


@pytest.mark.parametrize(
    ("addresses", "ranks", "cores", "crowded"),
    [
        (("a", "b"), 1, 1, False),
        (("a", "b"), 2, 1, True),
        (("a", "a"), 1, 1, True),
        (("a", "a"), 1, 2, False),
        (("a", "b", "b"), 2, 3, True),
        (("a", "b", "b"), 2, 4, False),
    ],
)
def test_oversubscribed_is_about_the_fullest_host(
    addresses: tuple[str, ...], ranks: int, cores: int, *, crowded: bool
) -> None:
    layout = Layout(addresses=addresses, ranks_per_host=ranks, cores=cores)

    assert layout.oversubscribed is crowded
