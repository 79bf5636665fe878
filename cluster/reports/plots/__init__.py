"""Sweeps, comparisons, scalings and distributions as pictures, drawn by matplotlib.

Each shows the bound where one is known, and confidence intervals as bars; a fitted line is drawn
over its range only (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rules 11 and 12). Pictures are narrow, so that they can be read on phones too.
"""

from cluster.reports.plots.comparisons import comparison
from cluster.reports.plots.distributions import distribution
from cluster.reports.plots.efficiencies import scaling
from cluster.reports.plots.pair_maps import pair_map
from cluster.reports.plots.picture import Format, Picture, require_matplotlib, why_no_plots
from cluster.reports.plots.steps import step_parts, steps
from cluster.reports.plots.sweeps import Curve, sweep

__all__ = [
    "Curve",
    "Format",
    "Picture",
    "comparison",
    "distribution",
    "pair_map",
    "require_matplotlib",
    "scaling",
    "step_parts",
    "steps",
    "sweep",
    "why_no_plots",
]
