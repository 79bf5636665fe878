"""Medians, intervals, comparisons and changes of measured values."""
