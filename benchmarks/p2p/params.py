"""The parameters of `p2p`, and their checks."""

from cluster.core.errors import SpecError
from cluster.core.units import Sizes
from cluster.measure.buffers import Buffers
from cluster.measure.kernels import Choice
from cluster.measure.repetitions import Repetitions


class P2PParams(Repetitions, frozen=True, kw_only=True):
    """The parameters of `p2p`.

    Args:
        metrics: Which metrics to measure.
        sizes: 8:64MiB (powers of two) or 8,512.
        window: Messages in flight. [default: 64]
        pair: The two ranks that exchange messages.
        kernel: The timed loops: c, python, or auto.
        buffer: Memory of the messages: cpu or cuda.
    """

    metrics: tuple[str, ...] = ("memory_copy", "latency", "bandwidth")
    sizes: Sizes = Sizes.parse("8:4MiB")
    window: int | None = None
    pair: tuple[int, int] = (0, 1)
    kernel: Choice = "auto"
    buffer: Buffers = "cpu"

    def check(self) -> None:
        """Refuse numbers that are too small, and flags without effect (SpecError)."""
        super().check()
        if self.window is None:
            return
        if self.window < 1:
            raise SpecError(f"--window is {self.window}; it must be at least 1.")
        if not {"bandwidth", "bidirectional"} & set(self.metrics):
            raise SpecError(
                "--window has no effect without the metrics bandwidth or bidirectional."
            )
