"""`cluster compare`, on folders of runs."""

import re

import msgspec
import pytest

from cluster.core.model.spec import ClusterSpec
from cluster.runs import store
from tests.analysis.test_summarize import definition, measurement
from tests.conftest import answer, command, runs_folder
from tests.plain_values import plain_record
from tests.snapshots import Snapshot

TIME = definition(metric="latency")


def saved(name: str, *medians: float, placement: bool = False) -> list[str]:
    """Write a run per median, and give their names."""
    names = []
    for number, median in enumerate(medians):
        folder = store.create(runs_folder(), name, "test", 1e9 + number)
        spec = ClusterSpec(name=name, placement=placement)
        by_id = {TIME.id: TIME}
        record = plain_record(id=folder.name, at=1e9 + number, spec=spec, definitions=by_id)
        store.write(folder, record)
        store.append(folder, [measurement(TIME, (median,) * 20, size=8)])
        names.append(f"{name}/{folder.name}")
    return names


STEADY = (1.0, 1.001, 1.002, 1.003, 1.004)


def test_two_runs_have_no_verdict_and_say_how_to_get_one(snapshot: Snapshot) -> None:
    saved("a", 1.0)
    saved("b", 2.0)
    output = command("compare", "a", "b").stdout

    snapshot(output)


def test_several_launches_of_each_have_one() -> None:
    first, second = saved("a", *STEADY), saved("b", *(2 * median for median in STEADY))
    output = command("compare", ",".join(first), ",".join(second)).stdout
    [parsed] = answer("compare", ",".join(first), ",".join(second))

    assert re.findall(r"[ab]/\S+", output)[:2] == [second[0], first[0]]
    assert parsed["cells"][0]["verdict"] == "slower"


def test_by_a_factor_a_name_stands_for_all_its_runs(snapshot: Snapshot) -> None:
    saved("far", *STEADY)
    saved("near", *(0.5 * median for median in STEADY), placement=True)
    output = command("compare", "--by", "placement", "far", "near").stdout

    snapshot(output)


def test_the_threshold_is_a_percentage(snapshot: Snapshot) -> None:
    first, second = saved("a", *STEADY), saved("b", *(1.02 * median for median in STEADY))
    words = ("compare", ",".join(first), ",".join(second))

    assert answer(*words)[0]["cells"][0]["verdict"] == "equivalent"
    assert answer(*words, "--threshold", "0.5")[0]["cells"][0]["verdict"] == "slower"
    snapshot(command(*words, "--threshold", "0", status=2).stderr)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a",), "is the only run of test here; two are compared"),
        (("a", "a", "a"), "3 run(s) were named; two are compared"),
        (("a", "nobody"), "There is no run 'nobody'"),
        (("a", "a", "--format", "pdf"), "no format 'pdf'"),
        (("a", "--by", "placement"), "All runs have the same placement"),
        (("a", "--by", "colour"), "No run has a 'colour'"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: tuple[str, ...], message: str) -> None:
    saved("a", 1.0)

    assert message in command("compare", *words, status=2).stderr


def test_one_run_is_compared_with_the_latest_and_that_with_the_one_before_it() -> None:
    for name in ("a", "b", "c"):
        saved(name, 1.0)

    def sides(*words: str) -> list[str]:
        (comparison,) = answer("compare", *words)
        return [comparison[side].partition("/")[0] for side in ("base", "other")]

    assert sides() == sides("c") == ["b", "c"]
    assert sides("a") == ["a", "c"]
    with_comma = runs_folder().rename(runs_folder().with_name("of mine, all"))
    assert sides("--runs", str(with_comma)) == ["b", "c"]


def test_scaling_without_names_is_over_all_runs_but_damaged_ones() -> None:
    for name, hosts in ("a", 2), ("b", 4), ("c", 8):
        saved(name, 1.0 / hosts)
        [folder] = runs_folder().glob(f"{name}/*")
        spec = ClusterSpec(name=name, hosts=hosts)
        store.write(folder, msgspec.structs.replace(store.record(folder), spec=spec))
    (folder / "run.json").write_text("{")

    [series] = answer("more", "scaling")
    assert [row["ranks"] for row in series["rows"]] == [2, 4]
    assert command("more", "scaling", "a", "c", status=None).returncode == 1


def test_markdown() -> None:
    saved("a", 1.0)
    saved("b", 1.0)

    assert "| metric | parameters |" in command("compare", "a", "b", "--format=markdown").stdout


def test_a_run_against_itself_is_refused(snapshot: Snapshot) -> None:
    first = saved("a", *STEADY)
    saved("b", 1.0)
    refusal = command("compare", ",".join(first), f"b,{first[2]}", status=2).stderr

    snapshot(refusal)
    assert first[2] in refusal


def test_runs_without_a_common_data_point_are_not_comparable(snapshot: Snapshot) -> None:
    """What each has is shown, and no empty drawing; a gate for `inconclusive` is hit."""
    saved("a", 1.0)
    saved("b", 1.0)
    [folder] = runs_folder().glob("b/*")
    (folder / "measurements.jsonl").unlink()
    store.append(folder, [measurement(TIME, (1.0,) * 20, size=8, streams=n) for n in range(4, 9)])
    output = command("compare", "a", "b").stdout

    snapshot(output)
    assert "inconclusive" not in output
    assert "|...." not in output
    assert command("compare", "a", "b", "--fail-on=inconclusive", status=3).stdout == output


def test_summaries_survive_the_way_to_json() -> None:
    saved("a", 1.0)

    assert msgspec.json.encode(answer("show", "a")["summaries"][0]["shape"]["outliers"]) == b"0"


def test_a_gate_that_could_never_be_hit_is_refused(snapshot: Snapshot) -> None:
    """Two single runs have no verdict: a step of CI must not pass by that."""
    saved("a", 1.0)
    saved("b", 2.0)
    refused = command("compare", "a", "b", "--fail-on", "slower", status=2)
    snapshot(refused.stderr)
    command("compare", "a", "b", "--fail-on", "slower,inconclusive", status=3)


def test_all_launches_of_a_command_are_compared(snapshot: Snapshot) -> None:
    """`bench --launches 5` under two names is what a gate on SLOWER needs."""
    for name, factor in (("before", 1.0), ("after", 2.0)):
        for folder in saved(name, *(factor * k for k in (1.0, 1.01, 1.02, 1.03, 1.04))):
            path = runs_folder() / folder / "run.json"
            record = msgspec.json.decode(path.read_bytes())
            path.write_bytes(msgspec.json.encode({**record, "launch_of": "1"}))
    result = command("compare", "before", "after", "--fail-on", "slower", status=3)

    snapshot(result.stderr)
    snapshot(command("judge", "after").stdout)
    snapshot(command("report", "after").stdout)
