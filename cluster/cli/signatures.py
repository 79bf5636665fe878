"""Signatures of shared runs, by OpenSSH's ssh-keygen, which nearly every host has.

What is signed is the list of names and checksums of all parts.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.core.errors import ClusterError, SpecError
from cluster.remote.shells.local import LocalShell
from cluster.runs import shared_file

if TYPE_CHECKING:
    from cluster.core.model.hosts import Completed

KEYGEN = "ssh-keygen"


def sign(listing: str, key: str) -> str:
    """Sign the names and checksums of a shared run.

    Raises:
        ClusterError: ssh-keygen is missing, or cannot sign with this key.

    """
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        text = Path(folder) / "listing"
        text.write_text(listing)
        done = _keygen("sign", "-f", key, "-n", shared_file.NAMESPACE, str(text))
        if done.status:
            raise ClusterError(
                f"ssh-keygen could not sign with {key}: {done.stderr.strip()[-200:]}",
                remedy="Name a private key that you may use: --sign ~/.ssh/id_ed25519",
            )
        return text.with_suffix(".sig").read_text()


def is_whole(made: shared_file.SharedRun) -> bool:
    """Tell whether the signature is one of these names and checksums, whoever signed."""
    return _check(made, "check-novalidate").status == 0


def signer_of(made: shared_file.SharedRun, signers: str, wanted: str = "") -> str:
    """Return the allowed signer whose signature a run has; empty if none of them signed it.

    Args:
        signers: file of allowed signers, as `ssh-keygen` reads it.
        wanted: the only one that counts; anybody in the file, if empty.

    Raises:
        SpecError: there is no such file.

    """
    if not Path(signers).is_file():
        raise SpecError(
            f"There is no file {signers}.",
            remedy="Write one, with lines such as: alice@example.com ssh-ed25519 AAAA...",
        )
    if not made.signature:
        return ""
    known = [wanted] if wanted else _check(made, "find-principals", "-f", signers).stdout.split()
    for name in known:
        if _check(made, "verify", "-f", signers, "-I", name).status == 0:
            return name
    return ""


def _check(made: shared_file.SharedRun, *words: str) -> Completed:
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        text, signature = Path(folder) / "listing", Path(folder) / "listing.sig"
        text.write_text(made.listing)
        signature.write_text(made.signature)
        return _keygen(*words, "-n", shared_file.NAMESPACE, "-s", str(signature), read=text)


def _keygen(*words: str, read: Path | None = None) -> Completed:
    if shutil.which(KEYGEN) is None:
        raise ClusterError(
            f"There is no {KEYGEN} on this machine.",
            means="Without it, a run can be neither signed nor held against its signature.",
            remedy="Install OpenSSH's client, such as: apt install openssh-client",
        )
    ask = [KEYGEN, "-Y", *words]
    return LocalShell().run(["sh", "-c", '"$@" < "$0"', str(read or "/dev/null"), *ask])
