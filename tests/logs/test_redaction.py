"""Secrets that logs hold by accident, and figures that only look like them."""

import random
import re
import time
from collections.abc import Iterator

import pytest

from cluster.logs.redaction import redact
from tests.conftest import ROOT, tries
from tests.logs.made_up_secrets import corpus

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\nAAAABG5vbmU\n"
END = "-----END OPENSSH PRIVATE KEY-----\n"


def clean(text: str, portion: int = 1 << 20) -> str:
    data = text.encode()
    parts = [data[start : start + portion] for start in range(0, len(data), portion)]
    return b"".join(redact(parts)).decode()


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY", "wJalrXUtnFEMI"),
        ("aws_access_key_id = AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("key id AKIAIOSFODNN7EXAMPLE was used", "AKIAIOSFODNN7EXAMPLE"),
        ("      password: hunter2hunter2", "hunter2"),
        ("      user_name: V6lQx8bJ", "V6lQx8bJ"),
        ('"env":["HOME=/root","WANDB_API_KEY=0123456789abcdef"]', "0123456789abcdef"),
        ('{"auth_token": "s3cr3t-value"}', "s3cr3t"),
        ("curl -H 'Authorization: Bearer abcdef0123456789'", "abcdef0123456789"),
        ("git clone https://alice:pa55word@example.org/x.git", "pa55word"),
        ("mysql --password hunter2 --host h", "hunter2"),
        ("token ghp_0123456789abcdefghij0123456789abcdef", "ghp_0123"),
        ("hf_abcdefghijklmnopqrstuvwxyz", "hf_abcdef"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "eyJzdWIi"),
        ('"env":["PASSWORD=\\"two words\\""]', "two"),
        ("export DB_PASSWORD='two words'", "words"),
        ('{"secret": "with \\" a quote"}', "quote"),
        ("DATA_ENCRYPTION_KEY=abcdef123456", "abcdef123456"),
        ("docker login -u me -p hunter2 registry.example.org", "hunter2"),
        ("sshpass -p hunter2 ssh node-1", "hunter2"),
        ("curl -u admin:hunter2 https://example.org", "hunter2"),
        ("https://example.org/x?v=1&X-Amz-Signature=0123456789abcdef", "0123456789abcdef"),
        ("pulled with nvapi-abcdefghijklmnopqrstuvwx", "nvapi-abc"),
        ('{"name": "API_KEY", "value": "abc123"}', "abc123"),
        ("gcp AIzaSyA-0123456789_0123456789_012345678", "AIzaSyA"),
    ],
)
def test_a_secret_goes_and_the_line_stays(line: str, secret: str) -> None:
    output = clean(f"before\n{line}\nafter\n")

    assert secret not in output
    assert "[redacted]" in output
    assert output.count("\n") == 3
    assert output.startswith("before\n")


@pytest.mark.parametrize(
    "line",
    [
        "tokens/sec: 1234.5",
        "Throughput: 1965.668 tokens/s",
        "h:1:2 [0] NCCL INFO Using network IB",
        "h:1:2 [0] NCCL INFO NCCL_IB_PKEY set by environment to 1.",
        "ms/token: 23.1, time per output token: 4 ms",
        "tokens_per_sec: 22.8K, tokens_per_second=1.2M, token_time: 12.5ms",
        "- name: NCCL_DEBUG\n  value: INFO",
        "# OSU MPI Latency Test v7.4",
        "see https://github.com/NVIDIA/nccl-tests for the key figures",
        "Process 1 transferred 100 MB in 23.1 ms (4323.8 MB/sec)",
        "bandwidthTest-H2D-Pinned, Bandwidth = 8494.3 MB/s",
    ],
)
def test_figures_stay_as_they_are(line: str) -> None:
    assert clean(line + "\n") == line + "\n"


@pytest.mark.parametrize("portion", [1, 7, 1 << 20])
def test_a_private_key_goes_over_all_its_lines(portion: int) -> None:
    output = clean(f"a\n{KEY}{END}b\n", portion)

    assert "b3BlbnNz" not in output
    assert "AAAABG5" not in output
    assert output.startswith("a\n[redacted]\n")
    assert output.endswith("\nb\n")
    assert output.count("\n") == 6


def test_a_private_key_without_its_end_goes_to_the_end() -> None:
    assert "AAAABG5" not in clean(KEY)


def test_the_value_of_a_variable_may_stand_below_its_name() -> None:
    """So Kubernetes prints the environment of a pod."""
    output = clean('- name: DB_PASSWORD\n  value: "hunter2"\n- name: A\n  value: b\n')

    assert output == '- name: DB_PASSWORD\n  value: "[redacted]"\n- name: A\n  value: b\n'


def test_any_bytes_stay_as_they_are() -> None:
    data = bytes(range(256)) * 3

    assert b"".join(redact([data])) == data


@pytest.mark.parametrize("seed", range(5))
def test_of_all_kinds_of_secrets_at_most_two_stay(seed: int) -> None:
    kinds = corpus(seed)
    misses = {
        kind: clean(f"before\n{text}\nafter\n")
        for kind, text, parts in kinds
        if any(part in clean(f"before\n{text}\nafter\n") for part in parts)
    }

    assert len(kinds) >= 150
    assert len(misses) <= 2, misses


def test_cleaned_once_is_clean_and_all_lines_are_there() -> None:
    for _, text, _ in corpus(0):
        output = clean(f"before\n{text}\nafter\n")

        assert clean(output) == output
        assert output.count("\n") == text.count("\n") + 3
        assert output.endswith("\nafter\n")


def test_the_portions_of_a_log_do_not_matter() -> None:
    text = "".join(f"{text}\n" for _, text, _ in corpus(1))
    whole = clean(text)

    for portion in (1, 2, 3, 17, 64, 1000):
        assert clean(text, portion) == whole


def clean_logs() -> Iterator[tuple[str, str]]:
    """Logs of benchmarks as they were recorded, then mutated: 1,000 in all with --long."""
    shared = ROOT.parent / "shared" / "data"
    files = [*sorted((ROOT / "tests" / "logs").glob("*.txt"))]
    files += sorted(path for path in shared.rglob("*.txt"))
    texts = [(path.name, path.read_text(errors="replace")) for path in files]
    for number in range(max(tries(1000), len(texts))):
        name, text = texts[number % len(texts)]
        yield name, mutate(text, random.Random(number)) if number >= len(texts) else text


def mutate(text: str, chance: random.Random) -> str:
    """Change one digit in five, so that figures have other values; cut lines out."""
    digits = re.sub(
        r"[0-9]", lambda m: str(chance.randrange(10)) if chance.random() < 0.2 else m[0], text
    )
    lines = digits.splitlines(keepends=True)
    start = chance.randrange(max(1, len(lines) - 60))
    return "".join(lines[start : start + 60])


def test_a_thousand_clean_logs_stay_as_they_are() -> None:
    changes = {}
    for name, text in clean_logs():
        if (after := clean(text)) != text:
            pairs = zip(text.splitlines(), after.splitlines(), strict=True)
            changes[name] = next(pair for pair in pairs if pair[0] != pair[1])

    assert not changes


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a_",
            "-a",
            "eyJ",
            ".",
            "eyJ-",
            "eyJaaaaaaaa.",
            "a",
            "9",
            "-",
            "_",
            " ",
            "\t",
            "=",
            ":",
            '"',
        ),
        *(
            "token",
            "token ",
            "token=",
            "password",
            "password ",
            "password: ",
            "pass",
            "_key",
            "_key ",
        ),
        *(
            "://",
            "://a:",
            "https://",
            "sk-",
            "sk-a",
            "curl ",
            "curl -u ",
            "mysql -p ",
            "key",
            "login ",
        ),
        *(
            "Cookie",
            "Bearer ",
            "name: ",
            "name: a_token ",
            "value",
            "\\",
            "\\'",
            '="',
            "='",
            "AC",
            "M",
        ),
        *(
            "-----BEGIN ",
            "glagent-",
            "xoxb-1-",
            "SG.",
            "\x1b[0m",
            "password\x1b[0m",
            "hooks.slack.com/",
        ),
    ],
)
def test_a_long_line_takes_a_moment_whatever_it_repeats(unit: str) -> None:
    line = (unit * 200_000)[:200_000]
    start = time.process_time()
    clean(f"{line}\n")

    assert time.process_time() - start < 2.0, "seconds of this process, where a tenth is usual"
