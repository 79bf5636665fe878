"""Sweeps, comparisons, scalings and distributions as pictures, drawn by matplotlib.

Each shows the bound where one is known, and confidence intervals as bars; a fitted line is drawn
over its range only (T. Hoefler, R. Belli, "Scientific benchmarking of parallel computing systems",
SC15, rules 11 and 12). Pictures are narrow, so that they can be read on phones too.
"""

from cluster.reports.plots.comparisons import comparison as comparison
from cluster.reports.plots.comparisons import scaling as scaling
from cluster.reports.plots.distributions import distribution as distribution
from cluster.reports.plots.distributions import step_parts as step_parts
from cluster.reports.plots.distributions import steps as steps
from cluster.reports.plots.pair_maps import pair_map as pair_map
from cluster.reports.plots.picture import Format as Format
from cluster.reports.plots.picture import Picture as Picture
from cluster.reports.plots.picture import require_matplotlib as require_matplotlib
from cluster.reports.plots.picture import why_no_plots as why_no_plots
from cluster.reports.plots.sweeps import Curve as Curve
from cluster.reports.plots.sweeps import sweep as sweep
