"""Data-parallel training on real data: shards and their places, a loader, a model."""
