"""The program that every rank of `p2p` runs."""

from cluster.benchmarks.p2p import P2P
from cluster.measure.main import main

if __name__ == "__main__":
    main(P2P())
