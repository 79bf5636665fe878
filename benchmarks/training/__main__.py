"""The program that every rank of `training` runs."""

from cluster.benchmarks.training import Training
from cluster.measure.main import main

if __name__ == "__main__":
    main(Training())
