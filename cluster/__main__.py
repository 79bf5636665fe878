"""`python -m cluster`: the `cluster` command."""

from cluster.cli import main

if __name__ == "__main__":
    main()
