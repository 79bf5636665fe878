"""`cluster share` and `cluster verify`: a run in one file that others may see."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace as with_fields

from cluster.cli import flags, signatures
from cluster.cli.show import print_lines, table
from cluster.core.errors import SpecError
from cluster.core.files import read_file
from cluster.runs import shared_file, store
from cluster.runs.share import prepare


def share(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A folder, id, cluster or latest.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before it is written.")
    ] = False,
    key: Annotated[
        str, typer.Option("--sign", metavar="KEY", help="Sign it with this SSH key.")
    ] = "",
    root: flags.Runs = None,
) -> None:
    """Write a run into one file, with pseudonyms for all names.

    Example: cluster share latest -o run.share.json
    """
    made, found = prepare(store.find(store.root(root), run))
    rows = [(each.kind, each.original, each.pseudonym) for each in found]
    table(("what", "original", "becomes"), rows, empty="Nothing in it had to be replaced.")
    print_lines(
        f"{len(made.parts)} files. Check that the list is complete: others will see the rest."
    )
    if not yes and not typer.confirm(f"Write {output}?"):
        raise typer.Exit(1)
    if key:
        made = with_fields(made, signature=signatures.sign(made.listing, key))
    _write(output, shared_file.encode(made))
    print_lines(f"Written: {output}", f"Check it anywhere: cluster verify {output}")


def _write(output: Path, content: bytes) -> None:
    """Write a file whole or not at all; a device or a pipe is written as it is."""
    whole = output.is_file() or not output.exists()
    target = output.resolve() if whole else output
    part = target.with_name(f".{target.name}.part") if whole else target
    try:
        part.write_bytes(content)
        if whole:
            part.replace(target)
    except OSError as error:
        if whole:
            part.unlink(missing_ok=True)
        raise SpecError(
            f"{output} cannot be written: {error.strerror}.",
            remedy="Make room, or name a file in another folder: -o FILE",
        ) from error


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `cluster share` wrote.")
    ],
    signers: Annotated[
        str,
        typer.Option("--signers", metavar="FILE", help="Allowed signers, as for ssh-keygen."),
    ] = "",
    signer: Annotated[str, typer.Option("--signer", help="The signer that is required.")] = "",
) -> None:
    """Check that no byte of a shared run was changed.

    Example: cluster verify run.share.json
    """
    content = read_file(file, largest=shared_file.LARGEST)
    try:
        made = shared_file.decode(content, file.name)
    except shared_file.NewerFormatError:
        raise
    except SpecError as error:
        print_lines(f"CHANGED: {error.what}", shared_file.AGAIN)
        raise typer.Exit(1) from error
    if signer and not signers:
        raise SpecError(
            f"Whose key {signer}'s is, this machine does not know.",
            remedy=f"Name a file of allowed signers: --signers FILE --signer {signer}",
        )
    if made.signature and not signatures.is_whole(made):
        print_lines(f"CHANGED: the signature of {file.name} does not match its content.")
        raise typer.Exit(1)
    known = signatures.signer_of(made, signers, signer) if signers else ""
    if signers and not known:
        print_lines(f"NOT SIGNED by {signer or 'an allowed signer'}: {file}")
        raise typer.Exit(1)
    kind = "a simulated run" if made.simulated else "a run"
    by = f" by {known}" if known else ", by a key that was not checked (--signers)"
    signed = f"signed{by}" if made.signature else "not signed"
    print_lines(f"WHOLE: {file.name} is {kind} of {len(made.parts)} files, {signed}.")
