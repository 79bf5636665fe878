"""Summaries as text, plots and pages."""
