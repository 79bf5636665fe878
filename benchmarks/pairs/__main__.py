"""The program of `pairs`, which runs on the first host and starts the tests on all."""

from cluster.benchmarks.pairs import Pairs
from cluster.measure.main import main_without_mpi as main

if __name__ == "__main__":
    main(Pairs())
