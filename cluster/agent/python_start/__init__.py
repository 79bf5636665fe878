"""The folder on the PYTHONPATH of jobs whose stacks can be asked for."""
