"""Logs in container logs, notebooks, saved pages and JSON: what is inside is read as any log."""

import json
from html import escape

import pytest

from cluster.core.errors import ParseError
from cluster.core.model.logs import Reading
from cluster.logs.reader import read
from cluster.logs.text import unwrap

HEAD = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
ROWS = "".join(
    f" {2**20 * n} {2**18 * n} float sum -1 {100 * n}.0 10.49 18.35 0 {100 * n}.0 10.49 18.35 0\n"
    for n in (1, 2, 4)
)
LOG = HEAD + ROWS + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 18.35\n"
IPERF = {
    "start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 1}},
    "intervals": [],
    "end": {
        "sum_sent": {"seconds": 1, "bytes": 1000, "retransmits": 0},
        "sum_received": {"seconds": 1, "bytes": 1000},
    },
}


def read_log(text: str) -> Reading:
    return read([text[start : start + 100].encode() for start in range(0, len(text), 100)])


def read_values(text: str) -> list[tuple[str, tuple[float, ...]]]:
    return [(m.metric, m.values) for r in read_log(text).results for m in r.measurements]


def busbw(text: str) -> list[float]:
    (result,) = read_log(text).results
    return [v for m in result.measurements if m.metric == "busbw" for v in m.values]


@pytest.mark.parametrize(
    "record",
    [
        lambda line: {"log": line + "\n", "stream": "stdout", "time": "2026-01-02T03:04:05.6Z"},
        lambda line: {"timestamp": 1767323045, "message": line},
        lambda line: {"insertId": "a1", "textPayload": line, "resource": {"type": "k8s_container"}},
        lambda line: {"level": "info", "msg": f"[1,0]<stdout>:{line}"},
        lambda line: {"jsonPayload": {"message": line}, "insertId": "a1"},
        lambda line: {"MESSAGE": line, "_HOSTNAME": "a"},
        lambda line: {"message": line, "nodeName": "a", "podName": "b"},
        lambda line: {"log": json.dumps({"level": "info", "msg": line}) + "\n", "stream": "stdout"},
    ],
)
def test_lines_of_container_logs(record: object) -> None:
    assert callable(record)
    text = "".join(json.dumps(record(line)) + "\n" for line in LOG.splitlines())

    assert busbw(text) == [18.35e9] * 6
    assert read_log(text).unread == 0


def test_lines_of_containerd_and_those_that_go_on() -> None:
    time = "2026-01-02T03:04:05.678901234Z"
    full = "".join(f"{time} stdout F {line}\n" for line in LOG.splitlines())
    parts = "".join(
        f"{time} stdout P {line[:9]}\n{time} stdout F {line[9:]}\n" for line in LOG.splitlines()
    )
    records = "".join(
        f"{time} stdout F {json.dumps({'level': 'info', 'msg': line})}\n"
        for line in LOG.splitlines()
    )

    for text in (full, parts, records):
        assert busbw(text) == [18.35e9] * 6


@pytest.mark.parametrize("indent", [None, 2])
def test_lists_of_records(indent: int | None) -> None:
    lines = LOG.splitlines()
    google = [{"textPayload": line, "insertId": "1"} for line in lines]
    cloudwatch = {"events": [{"timestamp": 1, "message": line} for line in lines]}
    newest_first = [[str(n), line] for n, line in enumerate(lines)][::-1]
    loki = {"data": {"result": [{"stream": {"pod": "a"}, "values": newest_first}]}}

    for document in (google, cloudwatch, loki):
        assert busbw(json.dumps(document, indent=indent) + "\n") == [18.35e9] * 6


def test_what_a_document_says_twice_is_read_once() -> None:
    text = json.dumps({"rc": 0, "stdout": LOG, "stdout_lines": LOG.splitlines()}, indent=1)

    assert busbw(text) == [18.35e9] * 6


def test_what_a_notebook_shows_as_html() -> None:
    data = {
        "text/html": [f"<pre>{escape(LOG)}</pre>"],
        "text/plain": ["<IPython.core.display.HTML object>"],
    }
    cells = [{"cell_type": "code", "outputs": [{"output_type": "display_data", "data": data}]}]

    assert busbw(json.dumps({"cells": cells}, indent=1)) == [18.35e9] * 6


def test_a_notebook_is_read_by_its_outputs_and_not_by_its_code() -> None:
    cells = [
        {"cell_type": "markdown", "source": LOG},
        {
            "cell_type": "code",
            "source": ["print('Throughput: 12.5 images/s')"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": LOG.splitlines(keepends=True)}
            ],
        },
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1)

    assert busbw(text) == [18.35e9] * 6


def test_the_failure_of_a_notebook_is_found() -> None:
    traceback = ["Traceback (most recent call last)", "RuntimeError: CUDA error: out of memory"]
    cells = [{"cell_type": "code", "outputs": [{"output_type": "error", "traceback": traceback}]}]
    result, signs = read_log(json.dumps({"cells": cells}, indent=1)).results

    assert signs.format == "symptoms"
    assert result.failures == ("RuntimeError: CUDA error: out of memory",)


@pytest.mark.parametrize("indent", [None, 1])
def test_a_log_in_a_string_of_json(indent: int | None) -> None:
    text = json.dumps({"returncode": 0, "result": {"stdout": LOG}}, indent=indent)

    assert busbw(text + "\n") == [18.35e9] * 6


def test_a_document_in_a_document_and_in_a_string() -> None:
    for inner in (IPERF, json.dumps(IPERF)):
        (result,) = read_log(json.dumps({"host": "a", "iperf": inner}, indent=2)).results

        assert result.format == "iperf3"
        assert {m.metric for m in result.measurements} >= {"sent", "received"}


def test_a_page_with_a_block_of_output() -> None:
    data = json.dumps({"body": LOG})
    page = (
        "<!DOCTYPE html>\n<html><head><style>p {}</style></head><body><p>It is slow &mdash; why?"
        f'</p><pre class="notranslate">{escape(LOG)}</pre>'
        f'<script type="application/json">{data}</script></body></html>\n'
    )

    assert busbw(page) == [18.35e9] * 6


def test_a_page_that_holds_its_text_in_json_only() -> None:
    data = json.dumps({"payload": {"issue": {"body": "Slow:\n```\n" + LOG + "```\n"}}})
    page = (
        "<html><head><title>x</title></head><body><div>Loading</div>"
        f'<script type="application/json" data-target="data">{data}</script></body></html>\n'
    )

    assert busbw(page) == [18.35e9] * 6


def test_a_page_whose_comments_are_html_in_its_json() -> None:
    data = json.dumps(
        {"comment": {"bodyHTML": f"<p>slow</p><pre><code>{escape(LOG)}</code></pre>"}}
    )
    script = f'<script type="application/json">{data}</script>'

    for body in ("<div>Loading</div>", "<pre>make</pre>", f"<pre>{escape(LOG)}</pre>"):
        page = f"<!DOCTYPE html><html><body>{body}{script}</body></html>\n"
        assert busbw(page) == [18.35e9] * 6


def test_lines_that_end_with_a_tag() -> None:
    assert busbw(LOG.replace("\n", "<br>")) == [18.35e9] * 6
    assert busbw(LOG.replace("\n", "<br />\r")) == [18.35e9] * 6


def test_a_mail_as_it_was_sent() -> None:
    text = (
        "> sockperf: =3D=3D=3D=3D=3D=3D=3D=3D=3D Printing statistics for Server No: =\n0\n"
        "> sockperf: Summary: Latency is 24.571 usec\n"
        "> sockperf: ---> <MAX> observation =3D 103294.331\n"
        "> sockperf: ---> percentile 99.000 =3D   33.390\n"
    )
    (result,) = read_log(text).results

    assert {m.metric for m in result.measurements} == {
        *("latency", "max_latency", "latency_percentile")
    }


def test_json_without_any_log_is_refused() -> None:
    deep = '{"a": ' * 30 + '"x\\ny"' + "}" * 30
    for text in (deep, '{"time": 1, "message": "hello"}\n', '{"cells": [{"outputs": [1]}]}'):
        with pytest.raises(ParseError):
            read_log(text)


ONE_LINE = {
    "nccl-tests": LOG,
    "OSU": "# OSU MPI Bandwidth Test v7.3\n# Size      Bandwidth (MB/s)\n"
    + "".join(f"{2**n:<10} {2**n * 1.5:>20.2f}\n" for n in range(12)),
    "iperf3": "Connecting to host 10.0.0.1, port 5201\n"
    "[  5] local 10.0.0.2 port 60920 connected to 10.0.0.1 port 5201\n"
    "[ ID] Interval           Transfer     Bitrate         Retr\n"
    "[  5]   0.00-1.00   sec  1.10 GBytes  9.40 Gbits/sec    0\n"
    "- - - - - - - - - - - - -\n"
    "[  5]   0.00-2.00   sec  2.20 GBytes  9.41 Gbits/sec    0             sender\n"
    "[  5]   0.00-2.04   sec  2.19 GBytes  9.22 Gbits/sec                  receiver\n",
}


@pytest.mark.parametrize("text", ONE_LINE.values(), ids=ONE_LINE)
@pytest.mark.parametrize("newline", [" ", "  ", "\\n", "\\r\\n", "<br>"])
def test_a_log_whose_newlines_were_lost(text: str, newline: str) -> None:
    assert read_values(text.rstrip("\n").replace("\n", newline)) == read_values(text)


def test_a_table_that_cannot_be_divided_is_not_guessed() -> None:
    """With a column of iterations, the row that a size begins cannot be told on one line."""
    rows = "".join(f"{2**n} {n + 1}.52 {n}.52 {n + 2}.52 1000 " for n in range(12))
    text = f"# OSU MPI Allreduce Latency Test v7.3 # Size Avg Latency(us) Min Latency(us) {rows}"

    assert read_values(text) == []


@pytest.mark.parametrize("text", ["2**10**", "x**2**", "**5**s", "***3***"])
def test_what_stands_between_asterisks_is_not_always_bold_type(text: str) -> None:
    assert list(unwrap([text])) == [text]
    assert list(unwrap(["| **3.5** |"])) == ["| 3.5 |"]
