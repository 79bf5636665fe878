"""`cluster share` and `cluster verify`: a run in one file that others may see."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace as with_fields

from cluster.cli import flags
from cluster.cli.show import print_lines, table
from cluster.core.errors import ClusterError, SpecError
from cluster.remote.shells.local import LocalShell
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
        made = with_fields(made, signature=_signature(made.listing, key))
    try:
        output.write_bytes(shared_file.encode(made))
    except OSError as error:
        raise SpecError(f"{output} cannot be written: {error.strerror}.") from error
    print_lines(f"Written: {output}", f"Check it anywhere: cluster verify {output}")


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
    try:
        made = shared_file.decode(file.read_bytes(), file.name)
    except OSError as error:
        raise SpecError(f"{file} cannot be read: {error.strerror}.") from error
    except shared_file.NewerFormatError:
        raise
    except SpecError as error:
        print_lines(f"CHANGED: {error.what}", "Get the file again from who shared it.")
        raise typer.Exit(1) from error
    if made.signature and not _is_valid(made, ["check-novalidate"]):
        print_lines(f"CHANGED: the signature of {file.name} does not match its content.")
        raise typer.Exit(1)
    if signers and not (
        made.signature and _is_valid(made, ["verify", "-f", signers, "-I", signer])
    ):
        print_lines(f"NOT SIGNED by {signer or 'an allowed signer'}: {file}")
        raise typer.Exit(1)
    kind = "a simulated run" if made.simulated else "a run"
    signed = "signed" if made.signature else "not signed"
    print_lines(f"WHOLE: {file.name} is {kind} of {len(made.parts)} files, {signed}.")


def _signature(listing: str, key: str) -> str:
    """Sign the names and checksums with ssh-keygen, which nearly every host has."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        text = Path(folder) / "listing"
        text.write_text(listing)
        words = ["ssh-keygen", "-Y", "sign", "-f", key, "-n", shared_file.NAMESPACE, str(text)]
        done = LocalShell().run(words)
        if done.status:
            raise ClusterError(
                f"ssh-keygen could not sign with {key}: {done.stderr.strip()[-200:]}",
                remedy="Name a private key that you may use: --sign ~/.ssh/id_ed25519",
            )
        return text.with_suffix(".sig").read_text()


def _is_valid(made: shared_file.SharedRun, words: list[str]) -> bool:
    """Check the signature of the names and checksums with ssh-keygen."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        text, signature = Path(folder) / "listing", Path(folder) / "listing.sig"
        text.write_text(made.listing)
        signature.write_text(made.signature)
        ask = ["ssh-keygen", "-Y", *words, "-n", shared_file.NAMESPACE, "-s", str(signature)]
        read = ["sh", "-c", '"$@" < "$0"', str(text), *ask]
        return LocalShell().run(read).status == 0
