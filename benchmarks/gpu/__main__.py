"""The program that every rank of `gpu` runs."""

from cluster.benchmarks.gpu import Gpu
from cluster.measure.main import main

if __name__ == "__main__":
    main(Gpu())
