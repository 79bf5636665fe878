"""`c.bench.p2p(sizes=[8])`: a method for each benchmark; `scripts/stubs` writes their types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cluster.core import plugins
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.bench.bench import BenchCall
from cluster.runs.run import Run


class Bench(BenchCall):
    """Runs benchmarks by name, as on the command line, or by typed methods.

    `c.bench("p2p", sizes=[8, "16KiB"])` is checked when it is called; in
    `c.bench.p2p(sizes=[8, "16KiB"])` a wrong parameter is also an error in the editor. A benchmark
    of your own is a method, too: `c.bench.mine(...)`.

    If a parameter is wrong, `SpecError` is raised before anything starts; if the job fails,
    `JobError`: the run's folder says why, and keeps the values.
    """

    def __getattr__(self, name: str) -> Callable[..., Run]:
        """Return the function that runs a benchmark; its docstring lists the parameters."""
        if name.startswith("_") or name not in plugins.names(Benchmark):
            raise AttributeError(
                f"There is no benchmark {name!r}. There are: {', '.join(plugins.names(Benchmark))}"
            )
        method = partial(self, name)
        method.__doc__ = plugins.find(Benchmark, name).Params.__doc__
        return method

    def __repr__(self) -> str:
        return f"<Bench: {', '.join(plugins.names(Benchmark))}>"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *plugins.names(Benchmark)]
