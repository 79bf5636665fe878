"""What of a folder is sent: all but what `.gitignore` names, and what no other machine needs."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.orchestration.bench.working_folder import stays_here
from cluster.remote.host_files import TreeEntry

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT, IGNORE = ".git", ".gitignore"
KINDS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l"}


class IgnoreRules:
    """The patterns of `.gitignore` files: those of a tree, and those of the work tree around it."""

    def __init__(self, top: Path) -> None:
        """Read the files above a folder, up to the top of its work tree, unless they name it."""
        self._specs: dict[tuple[str, str], GitIgnoreSpec] = {}
        around = [top, *top.parents]
        root = next((folder for folder in around if (folder / GIT).exists()), top)
        for folder in around[1 : around.index(root) + 1]:
            self.read(folder, above=f"{top.relative_to(folder)}/")
        if self.ignores(""):
            self._specs.clear()

    def read(self, folder: Path, inside: str = "", above: str = "") -> None:
        """Read the patterns of a folder, if it has any.

        `inside` is the folder's path in the tree, or `above` the path of the tree in the folder;
        both end with `/`.
        """
        files = (folder / GIT / "info" / "exclude", folder / IGNORE)
        texts = [file.read_text(errors="surrogateescape") for file in files if file.is_file()]
        if texts:
            from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few commands sync

            lines = "\n".join(texts).splitlines()
            self._specs[inside, above] = GitIgnoreSpec.from_lines(lines)

    def ignores(self, name: str) -> bool:
        """Return whether a name is ignored, if its folder is not; a folder ends with `/`."""
        inside = {key for key in self._specs if name.startswith(key[0])}
        for key in sorted(inside, key=lambda key: (len(key[0]), -len(key[1])), reverse=True):
            path = key[1] + name[len(key[0]) :]
            included = self._specs[key].check_file(path).include if path else None
            if included is not None:
                return included
        return False

    def protects(self, name: str, is_folder: bool) -> bool:  # noqa: FBT001 - of the name
        """Return whether a name, or a folder that it is in, is ignored."""
        parts = name.split("/")
        folders = ("/".join(parts[:end]) + "/" for end in range(1, len(parts)))
        return any(map(self.ignores, (*folders, name + "/" * is_folder)))


class LocalTree(Value, frozen=True, kw_only=True):
    """The part of a folder that is sent."""

    path: Path
    entries: dict[str, TreeEntry]  # by their paths in the folder, each folder before what is in it
    left_out: tuple[str, ...]  # paths; those of folders end with `/`
    outward: tuple[str, ...]  # links that lead out of the folder; they are sent as links
    rules: IgnoreRules

    @property
    def sizes(self) -> dict[str, int]:
        """Return the sizes in bytes of its files, without folders and links."""
        return {name: entry.size for name, entry in self.entries.items() if entry.kind == "f"}


def read_tree(path: str | Path, runs: Path, but: Collection[Path] = ()) -> LocalTree:
    """List what of a folder is sent: not the folder of all runs, nor `but` (SpecError)."""
    top = Path(path).resolve()
    if not str(path) or not top.is_dir():
        raise SpecError(
            f"{path or repr(path)} is no folder here.",
            remedy="sync takes a folder. One file: cluster put NAME FILE PATH",
        )
    rules = IgnoreRules(top)
    entries: dict[str, TreeEntry] = {}
    left_out: list[str] = []

    def walk(folder: str, inside: str) -> None:
        rules.read(Path(folder), inside=inside)
        with os.scandir(folder) as entries_there:
            for item in sorted(entries_there, key=lambda item: item.name):
                if entry := _entry(item):
                    is_folder = entry.kind == "d"
                    name = inside + item.name + "/" * is_folder
                    stays = is_folder and (stays_here(Path(item), runs) or Path(item) in but)
                    if entry.kind == "?" or stays or item.name == GIT or rules.ignores(name):
                        left_out.append(name)
                        continue
                    entries[inside + item.name] = entry
                    if is_folder:
                        walk(item.path, name)

    try:
        walk(str(top), "")
    except OSError as error:
        raise SpecError(
            f"{error.filename or top} could not be read: {error.strerror}.",
            remedy=f"Change its mode, or name it in {top / IGNORE}.",
        ) from error
    links = {name: entry.link for name, entry in entries.items() if entry.kind == "l"}
    outward = tuple(name for name, link in links.items() if _leads_out(name, link))
    return LocalTree(
        path=top, entries=entries, left_out=tuple(left_out), outward=outward, rules=rules
    )


def _entry(item: os.DirEntry[str]) -> TreeEntry | None:
    """Describe a file, a folder or a link, with the kind `?` for anything else; None if it went."""
    try:
        about = item.stat(follow_symlinks=False)
        is_link = stat.S_ISLNK(about.st_mode)
        link = os.readlink(item.path) if is_link else ""  # noqa: PTH115 - Path alters `./a`
    except FileNotFoundError:
        return None
    return TreeEntry(
        kind=KINDS.get(stat.S_IFMT(about.st_mode), "?"),
        size=about.st_size,
        time=about.st_mtime_ns,
        mode=stat.S_IMODE(about.st_mode),
        link=link,
    )


def _leads_out(name: str, link: str) -> bool:
    end = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
    return posixpath.isabs(end) or end.split("/")[0] == ".."
