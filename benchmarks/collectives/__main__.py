"""The program that every rank of `collectives` runs."""

from cluster.benchmarks.collectives import Collectives
from cluster.measure.main import main

if __name__ == "__main__":
    main(Collectives())
