"""The program that the first host runs; it asks all others to test pairs."""

from cluster.benchmarks.pairs import Pairs
from cluster.measure.main import main_without_mpi as main

if __name__ == "__main__":
    main(Pairs())
