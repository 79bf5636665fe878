"""Libraries that a benchmark needs on the hosts, such as torch: a folder inside the environment.

Benchmarks need different libraries, so they have no line in the marker: the folder's name says
which are in it, and it goes when the environment is made again.
"""

import hashlib
import re
import shlex
from collections.abc import Sequence

from cluster.remote.environment import downloads, wheels

FOLDER = "env/libraries"  # in the machine's folder
_NAME = re.compile(r"[\w.-]+")

# For the probe: a Python that the user named may have all of them.
LACKS = """\
[ -z "$libraries" ] || [ -d "$libraries" ] || "${given:-$python}" -c '
import sys
from importlib import metadata
[metadata.version(name) for name in sys.argv[1:]]
' $distributions 2> /dev/null || echo "lacks libraries"
"""

# pip comes along as a wheel; where no other wheel does, it asks the host's own package index.
INSTALL = """\
rm -rf {folder}.part
set -- "$1" "$2" "$new"/*.whl
[ $# = 3 ] && from= || from="--no-index --find-links $new"
get() {{
  env/bin/python3 "$(echo "$new"/pip-*.whl)/pip" install --no-input \\
    --disable-pip-version-check --retries {retries} --only-binary=:all: --no-compile \\
    --target {folder}.part $from "$@" {requirements}
}}
get{otherwise}
mv {folder}.part {folder}
if [ -d {folder}/torch ]; then
  printf '%s\n' {torchrun} > env/bin/torchrun
  chmod +x env/bin/torchrun
fi
"""

# What pip would have put beside the environment's Python: the folder's own program lacks its path.
TORCHRUN = """\
#!/bin/sh
here=${{0%/bin/*}}
PYTHONPATH="$here/libraries/{name}${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "$here/bin/python3" -m torch.distributed.run "$@"
"""


def names(libraries: Sequence[str]) -> tuple[str, ...]:
    return tuple(match[0] for library in libraries if (match := _NAME.match(library)))


def folder(libraries: Sequence[str]) -> str:
    """Return the folder of libraries in the machine's folder; empty without libraries."""
    if not libraries:
        return ""
    words = "\n".join(sorted(libraries)).encode()
    return f"{FOLDER}/{hashlib.blake2s(words, digest_size=6).hexdigest()}"


def script(libraries: Sequence[str], requirements: Sequence[str]) -> str:
    """Return the script that installs them, with what they need, from the wheels sent along."""
    other = downloads.sources(requirements)[1:]
    torchrun = TORCHRUN.format(name=folder(libraries).rpartition("/")[2])
    return INSTALL.format(
        folder=folder(libraries),
        torchrun=shlex.quote(torchrun.rstrip()),
        retries=wheels.RETRIES,
        requirements=" ".join(map(shlex.quote, requirements)),
        otherwise="".join(
            f' || {{ [ -z "$from" ] && get {shlex.join(source)}; }}' for source in other
        ),
    )
