"""Lines that describe a sweep over sizes; `cluster.analysis.models.fit` finds them."""

from cluster.core.model.value import Scalar, Value

WORST_ERROR = 0.25  # relative error above which a line does not describe the points
BEYOND = 4.0  # how many times beyond the measured sizes a time is predicted


class FitPoint(Value, frozen=True, kw_only=True):
    """The time that a message of one size takes."""

    size: int  # in bytes
    seconds: float  # that it takes


class Piece(Value, frozen=True, kw_only=True):
    """A line over a range of sizes."""

    first: int  # the smallest size, in bytes
    last: int  # the largest
    points: int  # how many sizes there are
    alpha: float  # the start-up time of a message, before its first byte, in seconds
    # the ends of its 95 % interval; none for fewer than 6 sizes
    alpha_ci: tuple[float, float] | None
    # the rate that large messages would reach, in bytes per second; infinite if time does not grow
    # with size
    beta: float
    beta_ci: tuple[float, float] | None  # the ends of its 95 % interval
    half: float | None  # the size at which half of `beta` is reached; none if no size reaches it
    worst: float  # the largest relative error at any size

    @property
    def misfit(self) -> str:
        """Why the line does not describe the points; empty if it does."""
        if self.alpha < 0:
            return "does not fit: a negative start-up time"
        if self.worst > WORST_ERROR:
            return f"does not fit: {self.worst:.0%} off"
        return ""

    def seconds(self, size: float) -> float:
        return self.alpha + size / self.beta


class Fit(Value, frozen=True, kw_only=True):
    """The lines that describe a sweep."""

    metric: str  # that was swept
    params: dict[str, Scalar]  # the parameters of the sweep, without the size
    points: tuple[FitPoint, ...]  # that were fitted, by size
    pieces: tuple[Piece, ...]  # from the smallest sizes to the largest
    of: str = ""  # the condition or run that was swept
    launches: int = 1  # how many launches the fitted medians come from

    def seconds(self, size: float) -> float | None:
        """Return the seconds of a message; none if it is four times beyond all measured ones."""
        first, last = self.pieces[0].first, self.pieces[-1].last
        if not first / BEYOND <= size <= last * BEYOND:
            return None
        nearest = min(self.pieces, key=lambda p: max(p.first / size, size / p.last, 1.0))
        return nearest.seconds(size)
