"""Ranks in a container: how an image is prepared on a host, and how a command runs in it."""

import shlex

PROGRAM = "in-image"  # in the environment's bin: runs its arguments in the image
NEEDS = "Python 3.11 or newer with mpi4py, msgspec and NumPy"

# Files that ranks write must belong to our user: podman maps a container's root to its caller.
USERS = {"podman": "", "docker": '--user "$(id -u):$(id -g)" '}

# Ranks share the host's network, process and IPC namespaces: the host's network is measured, not
# the container's own, and MPI finds the other ranks there. The variables of mpirun are passed on.
WRAPPER = """\
#!/bin/sh
set -- {image} "$@"
for name in $(env | sed -nE 's/^((OMPI|PMIX|PRTE|PMI|CLUSTER)_[A-Za-z0-9_]*)=.*/\\1/p'); do
  set -- -e "$name" "$@"
done
here=$(cd -- "${{0%/*}}/../.." && pwd)
exec {engine} run --rm --network host --ipc host --pid host {user}-v /tmp:/tmp \\
  -v "$here:$here" -w "$PWD" -e PYTHONPATH="$here/env/image" "$@"
"""
STEP = """\
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
rm -rf env/image && mkdir env/image && cp -R "$packages/cluster" env/image
{engine} image inspect {image} > /dev/null 2>&1 || {engine} pull -q {image}
printf '%s' {wrapper} > env/bin/{program}
chmod 755 env/bin/{program}
env/bin/{program} python3 -P -c '
import mpi4py, msgspec, numpy, sys
sys.exit(sys.version_info < (3, 11))' || {{ echo {lacks}; exit 1; }}
"""


def step(engine: str, image: str) -> str:
    """Return the script that pulls an image, by the engine of the host, and tries a rank in it."""
    word = shlex.quote(image)
    return STEP.format(
        engine=engine,
        image=word,
        wrapper=shlex.quote(WRAPPER.format(engine=engine, image=word, user=USERS.get(engine, ""))),
        program=PROGRAM,
        lacks=shlex.quote(f"The image {image} has no {NEEDS}."),
    )
