"""Training programs: what each framework prints per second, and how their failures show."""

import pytest

from cluster.logs.reader import read
from tests.logs.samples import results, values


def test_the_lines_of_many_frameworks() -> None:
    (found,) = results("throughput.frameworks")

    assert values(found, "images_rate", name="compute_ips") == [2612.5]
    assert values(found, "images_rate", name="total_ips") == [2500.25]
    assert values(found, "images_rate", name="ips") == [1040.75]
    assert {1096.25, 123.25, 812.5} <= set(values(found, "images_rate"))
    assert values(found, "samples_rate", name="RunningAvgSamplesPerSec") == [41.25]
    assert values(found, "samples_rate", name="CurrSamplesPerSec") == [40.5]
    assert values(found, "samples_rate", name="samples per second") == [12.375]
    assert values(found, "samples_rate", name="train_samples_per_second") == [48.125]
    assert 2345.5 in values(found, "samples_rate")
    assert values(found, "examples_rate") == [2534.25, 692.5]
    assert values(found, "tokens_rate", name="wps") == [12346.5]
    assert values(found, "tokens_rate", name="tps") == [3456]
    assert 1234567.5 in values(found, "tokens_rate")
    assert values(found, "flops_rate") == pytest.approx([101.5e12])


def test_a_traceback_is_a_failure_and_takes_no_figure_away() -> None:
    figures, job, signs = results("job.traceback")

    assert values(figures, "step_rate") == [205.3, 204.8]
    assert job.failures == (
        "tensorflow.python.framework.errors_impl.UnknownError: Horovod has been shut down.",
    )
    assert signs.format == "symptoms"


def test_a_traceback_without_its_end_is_a_failure() -> None:
    text = b'Iter #0: 1.5 img/sec per GPU\nTraceback (most recent call last):\n  File "x", line 1\n'
    (job,) = [found for found in read([text]).results if found.format == "job"]

    assert len(job.failures) == 1


def test_what_python_ignores_while_it_ends_is_no_failure() -> None:
    text = (
        b"Throughput: 10.5 images/s\n"
        b"Exception ignored in: <function Session.__del__ at 0x1>\n"
        b"Traceback (most recent call last):\n"
        b'  File "session.py", line 1, in __del__\n'
        b"TypeError: 'NoneType' object is not callable\n"
    )

    throughput, signs = read([text]).results

    assert throughput.failures == signs.failures == ()


def test_a_fork_of_the_synthetic_benchmark_may_say_more() -> None:
    text = (
        b"Iter #0: 108.3 img/sec per GPU:0, iteration time 295.500000 ms\n"
        b"Img/sec per GPU:0: 108.250 +-1.200\nTotal img/sec on 4 GPU:0(s): 433.0 +-4.9\n"
    )
    (found,) = read([text]).results

    assert values(found, "iteration_rate") == [108.3]
    assert values(found, "mean_rate") == [108.25]
    assert values(found, "total_rate", devices=4) == [433]


def test_times_of_iterations_and_what_they_are_per_second() -> None:
    """Lines of epfLLM/Megatron-LLM 11, nanoGPT 178, litgpt 1607, maxtext 2232, and others."""
    (found,) = results("throughput.loops")

    assert values(found, "iteration_time") == pytest.approx(
        [86.5452, 0.89376, 0.1122, 5.667, 2.345, 0.523, 0.324, 2.01, 3.05636]
    )
    assert values(found, "derived_samples_rate") == pytest.approx([1024 / 86.5452, 32 / 2.345])
    assert values(found, "derived_tokens_rate")[0] == pytest.approx(491520 / 0.89376)
    assert values(found, "device_tokens_rate") == [8672.758]
    assert values(found, "flops_rate") == [134.924e12]
    assert values(found, "iterations_rate") == [12.345, 13.38]


def test_a_loop_whose_batch_is_not_printed_has_no_derived_rate() -> None:
    (found,) = read([b"iter 10: loss 3.2202, time 893.76ms, mfu 16.68%\n"]).results

    assert [m.metric for m in found.measurements] == ["iteration_time"]


def test_lines_that_differ_in_digits_only_keep_their_names() -> None:
    text = b"rank1_samples_per_sec: 12.5\nrank2_samples_per_sec: 13.5\nrank2_samples_per_sec: 9.5\n"
    (found,) = read([text]).results

    assert values(found, "samples_rate", name="rank1_samples_per_sec") == [12.5]
    assert values(found, "samples_rate", name="rank2_samples_per_sec") == [13.5, 9.5]


def test_a_letter_behind_a_comma_is_no_million() -> None:
    """The last line of a log was cut in the name of what comes next."""
    text = b"RunningAvgSamplesPerSec=41.25, CurrSamplesPerSec=40.50, M"
    (found,) = read([text]).results

    assert values(found, "samples_rate", name="CurrSamplesPerSec") == [40.5]


def test_steps_of_nemo_slim_cifar_and_descendants_of_nanogpt() -> None:
    (result,) = results("throughput.steps")

    assert values(result, "iteration_time") == pytest.approx([2.505, 0.937, 0.278, 0.1352])
    assert values(result, "derived_samples_rate") == [pytest.approx(8 / 2.505)]
    assert values(result, "examples_rate") == [460.2]
    assert values(result, "tokens_rate") == [121176.5]
