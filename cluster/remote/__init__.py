"""Run, copy and install on hosts."""
