"""Measures the parts of one host: copies between its NUMA nodes, its cores or its GPUs."""
