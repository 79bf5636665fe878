"""Benchmarks as batch jobs and Kubernetes manifests."""
