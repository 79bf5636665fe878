"""The words of srun that start one step inside a Slurm allocation."""

from cluster.core.model.hosts import Layout


def step_words(layout: Layout, tasks: int, *, pmi: str = "", overcommit: bool) -> list[str]:
    """Return the command line of a step, up to its program.

    Steps have exclusive resources since Slurm 20.11, so that a second one would wait for the first:
    `--overlap`. Slurm numbers tasks along its own list of nodes, unless their distribution is
    `arbitrary`: then task N runs on the Nth name of `--nodelist`. A rank that dies ends the others,
    which would wait for it. Without `pmi`, `--mpi` is that of the allocation.
    """
    lent = layout.allocation
    names = lent.names if lent else layout.addresses
    by_place = dict(zip(layout.addresses, names, strict=True))
    places = [by_place[a] for a in layout.slots for _ in range(layout.addresses.count(a) * tasks)]
    uniform = len(set(names)) == len(names)
    return [
        "srun",
        *([f"--jobid={lent.job}"] if lent and lent.job else []),
        f"--mpi={pmi or (lent.pmi if lent else '') or 'none'}",
        "--overlap",
        *("-N", str(len(set(places))), "-n", str(len(places))),
        *([f"--ntasks-per-node={tasks}"] if uniform else []),
        *("--distribution=arbitrary", f"--nodelist={','.join(places)}"),
        *("--cpu-bind=none", "--kill-on-bad-exit=1", "--export=ALL"),
        *(["--overcommit"] if overcommit else []),
    ]
