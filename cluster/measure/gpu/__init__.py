"""What the benchmark `gpu` does on a host: copies and launches, timed by CUDA's events."""
