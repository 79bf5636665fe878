"""`cluster top`: what hosts of a lab do, against what a check proved, and what looking costs."""

import json
import statistics

import pytest

import cluster
from tests.conftest import command

pytestmark = pytest.mark.usefixtures("own_labs", "home")
SINK = """
import socket
connection, _ = socket.create_server(("0.0.0.0", 9999)).accept()
while connection.recv(1 << 20):
    pass
"""
SOURCE = """
import socket
connection = socket.create_connection(("{address}", 9999))
while True:
    connection.send(bytes(1 << 20))
"""
COST = 0.005  # of a processor


def test_a_host_that_does_not_answer_is_a_row_beside_the_others() -> None:
    lab = cluster.launch("lost", provider="lab", hosts=3, options={"rate": "60mbit"})
    command("lab", "lost", "kill", "0")
    lines = command("top", "lost", "--json", "--count", "1").stdout.splitlines()
    reasons = {line["host"]: line["reason"] for line in map(json.loads, lines)}
    assert {host: bool(reason) for host, reason in reasons.items()} == {
        machine.name: number == 0 for number, machine in enumerate(lab.machines)
    }
    rows = command("top", "lost").stdout.splitlines()
    assert ["does not answer" in row for row in rows if ".lost" in row] == [True, False, False]

    for host in ("1", "2"):
        command("lab", "lost", "kill", host)
    assert "does not answer" in command("top", "lost", status=1).stdout


@pytest.mark.serial  # it measures speed, and what looking costs
def test_a_flow_is_seen_as_a_share_of_what_the_links_carried() -> None:
    lab = cluster.launch("seen", provider="lab", hosts=3, options={"rate": "60mbit"})
    unproven = command("top", "seen", "--json", "--count", "1").stdout.splitlines()
    assert [json.loads(line)["sent_share"] for line in unproven] == [None] * 3
    command("check", "seen", "--milliseconds", "100")
    lab.start(["python3", "-c", SINK], hosts=lab.hosts[1], name="sink").wait_for_port(9999)
    source = SOURCE.format(address=lab.machines[1].address)
    lab.start(["python3", "-c", source], hosts=lab.hosts[2], name="source")

    lines = command("top", "seen", "--json", "--count", "3").stdout.splitlines()
    usages = [json.loads(line) for line in lines]
    last = {usage["host"][0]: usage for usage in usages[-3:]}
    assert (len(usages), sorted(last)) == (9, ["0", "1", "2"])
    assert (last["2"]["sent_share"] > 0.8, last["1"]["received_share"] > 0.8) == (True, True)
    assert (last["0"]["sent_share"] < 0.1, last["0"]["received_share"] < 0.1) == (True, True)
    assert [list(last[host]["jobs"]) for host in "012"] == [[], ["sink"], ["source"]]
    # Interrupts of the flow are charged to whom they interrupt: one interval may cost more.
    assert statistics.median(usage["cost"] for usage in usages) < COST
