"""Wheels from a folder, made importable without an installer and without a network."""

import pathlib
import shutil
import sys
import tempfile
import zipfile


def unpack(folder: pathlib.Path, target: pathlib.Path) -> list[str]:
    """Unpacks every wheel of a folder to `target`; returns "name version" of each.

    What a wheel keeps in NAME.data/purelib or /platlib belongs beside the rest."""
    names = []
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        name, version = wheel.name.split("-")[:2]
        names.append(f"{name} {version}")
        for part in ("purelib", "platlib"):
            inner = target / f"{name}-{version}.data" / part
            if inner.is_dir():
                shutil.copytree(inner, target, dirs_exist_ok=True)
    return names


class Unpacked:
    """A temporary folder with the unpacked wheels, for a `with`; it ends with the block."""

    def __init__(self, folder: pathlib.Path | None):
        self._folder = folder
        self.names: list[str] = []

    def __enter__(self) -> "Unpacked":
        self._temporary = tempfile.TemporaryDirectory(prefix="sluice-wheels-")
        self.path = pathlib.Path(self._temporary.name)
        if self._folder is not None:
            self.names = unpack(self._folder, self.path)
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()


def use(folder: pathlib.Path) -> None:
    """Puts a folder of unpacked wheels behind what is installed, so that it only adds to it."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
