"""Data-parallel training on real data: shards, where they are kept, a loader, a model, its steps."""
