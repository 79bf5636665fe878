"""The folder of a run that was measured elsewhere joins the runs here."""

import glob
import shutil
from pathlib import Path, PurePath

from msgspec.structs import replace

from cluster.core.errors import ClusterError, on_failure
from cluster.core.model.records import Record
from cluster.runs import store


def import_run(folder: Path, where: Path, name: str = "") -> Path:
    """Copy a run's folder, for the cluster `name` if given (SpecError; ParseError: damaged)."""
    record = store.read(folder).record
    spec = replace(record.spec, name=name or record.spec.name)
    is_name = PurePath(record.id).name == record.id  # it may come from anywhere
    stem = record.id if is_name else folder.resolve().name
    for candidate in sorted((where / spec.name).glob(f"{glob.escape(stem)}*")):
        if _is_copy(candidate, folder, record):
            return candidate
    copy = store.create(where, spec.name, stem.partition("-")[2] or record.benchmark, record.at)
    with on_failure(lambda: shutil.rmtree(copy, ignore_errors=True)):
        try:
            shutil.copytree(folder, copy, symlinks=True, ignore=_strange, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise ClusterError(
                f"{folder} cannot be copied to {copy}: {error}",
                remedy="Is there room, and may you read all of it? Nothing was kept.",
            ) from error
        if copy.name != record.id:  # another run has that name here
            store.write(copy, replace(record, id=copy.name))
    return copy


def _is_copy(candidate: Path, folder: Path, record: Record) -> bool:
    """Tell whether a folder holds the same run; its id may have got a number here."""
    if not store.is_run(candidate) or replace(store.record(candidate), id=record.id) != record:
        return False
    own, copied = (store.read(place).measurements for place in (candidate, folder))
    return list(own) == list(copied)


def _strange(folder: str, names: list[str]) -> list[str]:
    """Name what is no file and no folder; a link may lead anywhere."""
    paths = [Path(folder) / name for name in names]
    return [p.name for p in paths if p.is_symlink() or not (p.is_file() or p.is_dir())]
