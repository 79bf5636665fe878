"""iperf3: JSON (`-J`), also several documents in one file, and text.

GBytes are 2**30 bytes and Gbits 1e9 bits. The result is the receiver's rate of all streams
together; the sender's rate counts what its kernel accepted.
"""

import re

import msgspec

from cluster.core import decoders
from cluster.core.model.logs import Parsed
from cluster.logs.parsers import Parser, ResultBuilder
from cluster.logs.parsers.iperf3 import json_report
from cluster.logs.parsers.iperf3.text_report import LINE, ROLE, TextReport

EVENT = 64  # characters at the beginning of a line of `--json-stream` that name its event
# Lines that iperf 2 never prints: they identify a log that was pasted without its head.
_OURS = re.compile(
    r"\s*\[ *(?:SUM|\d+)\]"
    r"(?:\[[TR]X-[CS]\]|\s+\d+\.\d\d-\d+\.\d\d\s{2,}sec | +local .* connected to )"
    r"|\s*\[ *ID\](?:\[Role\])? Interval .*\b(?:Bitrate|Retr)\b"
)
_HEAD = re.compile(r"\s*(?:Connecting to host|Accepted connection from|Reverse mode,|iperf 3\.)")
_KNOWN = re.compile(
    r"\s*(?:- -|Server output:|\[SUM\] .*datagrams received out-of-order|"
    r"\[ *\d+\] Sent \d+ datagrams|-{10,}|\[ *ID\]|"
    r"\[ *\d+\](?:\[[TR]X-[CS]\])? +local .* connected to |"
    r"Server listening on \d|iperf Done|Test Complete|"
    r"CPU Utilization|Control connection MSS|Time:|Cookie:|TCP MSS|Starting Test|snd_tcp|rcv_tcp|"
    r"Linux \S+ \d|Cookie)"
)
_ERROR = re.compile(
    r"\s*(?:iperf3: )?"
    r"((?:error - |interrupt - ).*|unable to .*|the (?:client|server) has terminated)"
)


class Iperf3(Parser):
    """iperf3: the receiver's figure, in bits per second; its GBytes are 2**30 bytes."""

    marks = (
        *("iperf3", "iperf 3.", "Connecting to host", "Accepted connection from", "sum_received"),
        *("bits/sec", "test_start", '"intervals"', '"event"', "receiver", "connected to"),
        "Bitrate",
    )
    definitions = json_report.DEFINITIONS

    def __init__(self) -> None:
        self._parsed: list[Parsed] = []
        self._text: TextReport | None = None
        # of `--json-stream`, as far as it is there
        self._stream: json_report.Iperf3JsonReport | None = None
        self._stream_at = 0

    def take(self, line: str, lineno: int) -> bool:
        row = LINE.match(line)
        if row is not None and self._text is not None:
            if self._text.ends_before(row):
                self._close()
            return self._open(lineno).row(row)
        if _HEAD.match(line):
            self._head(line, lineno)
            return True
        error = _ERROR.match(line)
        if error:
            self._open(lineno).fail(error[1])
            return True
        if _OURS.match(line) or (row is not None and ROLE.search(line)):  # iperf2 has no role
            self._open(lineno)
        if self._text is None:
            return False
        return self._read_note(self._text, line) if row is None else self._text.row(row)

    def _head(self, line: str, lineno: int) -> None:
        if self._text is None or self._text.is_begun:
            self._close()
            self._text = TextReport(lineno)
        self._text.say(line)

    def _read_note(self, text: TextReport, line: str) -> bool:
        is_chatter = _KNOWN.match(line) is not None
        if is_chatter:
            text.say(line)
        return is_chatter

    def take_document(self, text: str, lineno: int) -> bool:
        try:
            if '"event"' in text[:EVENT]:
                return self._event(decoders.decode(text, json_report.JsonEvent), lineno)
            document = json_report.decode_report(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return self._torn(text, lineno)
        if document.is_any:
            return self._document(document, lineno)
        return document.title.startswith("iperf ") and self._torn(text, lineno)

    def _event(self, event: json_report.JsonEvent, lineno: int) -> bool:
        """Read a line of `--json-stream`, which contains one part of the report as a document."""
        data = event.data
        if event.event == "start":
            start = decoders.decode(data, json_report.Start)
            if not start.version.startswith("iperf"):
                return False  # of another program
            self._end_stream()
            self._stream = json_report.Iperf3JsonReport(start=start, intervals=[])
            self._stream_at = lineno
        elif self._stream is None:
            return False
        elif event.event == "interval" and self._stream.intervals is not None:
            self._stream.intervals.append(decoders.decode(data, json_report.Interval))
        elif event.event == "end":
            self._stream.end = decoders.decode(data, json_report.End)
        elif event.event == "error":
            self._stream.error = decoders.decode(data, str)
        return True

    def _end_stream(self) -> None:
        document, self._stream = self._stream, None
        if document is None:
            return
        if not document.is_any:
            document.error = "its end is missing: it was stopped, or the log is cut off"
        self._document(document, self._stream_at)

    def _document(self, document: json_report.Iperf3JsonReport, lineno: int) -> bool:
        builder = ResultBuilder("iperf3", lineno, document.title)
        document.fill(builder)
        self._parsed.append(builder.parsed())
        return True

    def results(self) -> tuple[Parsed, ...]:
        self._close()
        self._end_stream()
        return tuple(self._parsed)

    def _torn(self, text: str, lineno: int) -> bool:
        """Record that a document has no end, so that its totals are lost."""
        if '"test_start"' not in text and '"intervals"' not in text:
            return False
        builder = ResultBuilder("iperf3", lineno, "iperf3")
        builder.fail("the JSON document is broken or cut off: there are no totals")
        self._parsed.append(builder.parsed())
        return True

    def _open(self, lineno: int) -> TextReport:
        if self._text is None:
            self._text = TextReport(lineno)
        return self._text

    def _close(self) -> None:
        if self._text is not None:
            self._parsed.append(self._text.parsed())
            self._text = None
