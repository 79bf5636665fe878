"""The FLOPs of the model, against torch's own counter."""

import pytest

from cluster.measure.training.trainer import training_flops


@pytest.mark.parametrize("width", [4, 24])
def test_they_are_those_that_torch_counts(width: int) -> None:
    """It takes seconds: torch loads."""
    torch = pytest.importorskip("torch", reason="torch is not here: pip install torch==2.13.0")
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415 - optional

    from cluster.measure.training.trainer import _network  # noqa: PLC0415 - of the test only

    model, samples = _network(torch.nn, width), 16
    images, labels = torch.zeros(samples, 1, 8, 8), torch.zeros(samples, dtype=torch.int64)
    with FlopCounterMode(display=False) as counted:
        torch.nn.functional.cross_entropy(model(images), labels).backward()

    assert training_flops(width) == counted.get_total_flops() / samples
