"""`cluster plot --fit`, on a real sweep."""

import msgspec
import pytest

from cluster.runs import store
from tests.analysis.test_summarize import definition, measurement
from tests.conftest import answer, command, runs_folder
from tests.plain_values import plain_record
from tests.reports.test_page import saved
from tests.snapshots import Snapshot


@pytest.mark.usefixtures("tools")
def test_a_sweep_of_this_machine() -> None:
    answer("bench", "p2p", "--metrics=latency", "--sizes=8:256KiB", "--iterations=60")
    output = command("plot", "--fit", "p2p").stdout
    parsed = answer("plot", "--fit", "p2p", "--metric", "latency")

    assert output.startswith("t = alpha + size / beta\n")
    assert "latency" in output
    [fit] = parsed["fits"]
    assert [piece["points"] for piece in fit["pieces"]]
    assert sum(piece["points"] for piece in fit["pieces"]) == 16
    assert 1e-8 < fit["pieces"][0]["alpha"] < 1e-2
    command("plot", "--fit", "p2p", "--metric=gossip", status=2)
    assert "| metric |" in command("plot", "--fit", "p2p", "--format=markdown").stdout
    command("down", "p2p")


def test_launches_of_a_cluster_are_one_fit_and_conditions_are_several() -> None:
    """A cluster stands for all of its runs; the newest alone is `latest`."""
    for time in (1e9, 1e9 + 60):
        saved("two", when=time)
    saved("two", when=1e9 + 120, condition="links=4")
    fits = answer("plot", "--fit", "two", "--metric", "latency")["fits"]

    assert [(fit["of"], fit["launches"]) for fit in fits] == [
        ("20010909T014640Z-test", 2),
        ("links=4", 1),
    ]
    assert [fit["of"] for fit in answer("plot", "--fit")["fits"]] == ["links=4", "links=4"]
    assert "links=4" in command("plot", "--fit", "two").stdout


def operations(name: str, *sizes: int, **params: str) -> None:
    """Write a run of broadcasts between two ranks."""
    bcast = definition(metric="bcast")
    folder = store.create(runs_folder(), name, "test", 1e9)
    text = msgspec.Raw(msgspec.json.encode(params))
    record = plain_record(name, id=folder.name, at=1e9, params=text, definitions={bcast.id: bcast})
    store.write(folder, record)
    for size in sizes:
        template = measurement(bcast, (size / 1e9,) * 6)
        store.append(folder, [msgspec.structs.replace(template, params={"size": size, "ranks": 2})])


def test_operations_are_predicted_by_single_messages_and_none_is_left_out() -> None:
    saved("messages")
    operations("ops", 1024, 2**30, transport="gloo")
    parsed = answer("plot", "--fit", "messages", "--metric", "bandwidth", "--collectives", "ops")
    output = command("plot", "--fit", "messages", "--collectives", "ops").stdout

    assert [row["metric"] for row in parsed["fits"]] == ["bandwidth"]
    [row] = parsed["predictions"]
    assert row["predicted"] == pytest.approx((1e-6 + 1024 / 1e10) * 1.0095, rel=1e-3)
    assert [row["size"] for row in parsed["unpredicted"]] == [2**30]
    assert any("gloo" in note for note in parsed["notes"])
    assert "1 GiB   none" in output


def test_what_cannot_be_predicted_is_refused(snapshot: Snapshot) -> None:
    """Windows of messages, several kinds of messages, and no operations at all."""
    saved("messages")
    saved("messages", when=2e9, condition="links=4")
    saved("messages", when=3e9, condition="links=8")
    operations("ops", 8, 64, 512, 4096)

    several = command("plot", "--fit", "messages", "--collectives", "ops", status=2).stderr
    snapshot(several)
    none = command("plot", "--fit", "latest", "--collectives", "latest", status=2).stderr
    snapshot(none)
    windows = command("plot", "--fit", "ops", "--collectives", "ops", status=2).stderr
    snapshot(windows)
