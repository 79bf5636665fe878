"""Check that no byte of a shared run was changed.

Example: cluster more verify run.share.json
"""

from pathlib import Path
from typing import Annotated

from click.exceptions import Exit

from cluster.cli.flags import argument
from cluster.cli.show import print_lines
from cluster.core.errors import SpecError
from cluster.core.state.files import read_file
from cluster.runs import shared_file


def command(
    file: Annotated[Path, argument("FILE", "A file that `cluster more share` wrote.")],
) -> None:
    content = read_file(file, largest=shared_file.LARGEST)
    try:
        shared_run = shared_file.decode(content, file.name)
    except shared_file.NewerFormatError:
        raise
    except SpecError as error:
        print_lines(f"CHANGED: {error.what}", shared_file.AGAIN)
        raise Exit(1) from error
    kind = "a simulated run" if shared_run.simulated else "a run"
    print_lines(f"WHOLE: {file.name} is {kind} of {len(shared_run.parts)} files.")
