"""Secrets that logs hold by accident, and figures that only look like them."""

from __future__ import annotations

import pytest

from cluster.logs.redaction import redact

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\nAAAABG5vbmU\n"
END = "-----END OPENSSH PRIVATE KEY-----\n"


def clean(text: str, portion: int = 1 << 20) -> str:
    data = text.encode()
    parts = [data[at : at + portion] for at in range(0, len(data), portion)]
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
    found = clean(f"before\n{line}\nafter\n")

    assert secret not in found
    assert "[redacted]" in found
    assert found.count("\n") == 3
    assert found.startswith("before\n")


@pytest.mark.parametrize(
    "line",
    [
        "tokens/sec: 1234.5",
        "Throughput: 1965.668 tokens/s",
        "h:1:2 [0] NCCL INFO Using network IB",
        "h:1:2 [0] NCCL INFO NCCL_IB_PKEY set by environment to 1.",
        "ms/token: 23.1, time per output token: 4 ms",
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
    found = clean(f"a\n{KEY}{END}b\n", portion)

    assert "b3BlbnNz" not in found
    assert "AAAABG5" not in found
    assert found.startswith("a\n[redacted]\n")
    assert found.endswith("\nb\n")
    assert found.count("\n") == 6


def test_a_private_key_without_its_end_goes_to_the_end() -> None:
    assert "AAAABG5" not in clean(KEY)


def test_the_value_of_a_variable_may_stand_below_its_name() -> None:
    """So Kubernetes prints the environment of a pod."""
    found = clean('- name: DB_PASSWORD\n  value: "hunter2"\n- name: A\n  value: b\n')

    assert found == '- name: DB_PASSWORD\n  value: "[redacted]"\n- name: A\n  value: b\n'


def test_any_bytes_stay_as_they_are() -> None:
    data = bytes(range(256)) * 3

    assert b"".join(redact([data])) == data
