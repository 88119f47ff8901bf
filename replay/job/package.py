"""Make the files for ``spark-submit``: one zip of our modules for driver and executors, and the main script.

``python -m replay.job.package FOLDER`` writes both. The zip has ``replay`` and ``controllerd.record`` whole, the
modules of this project that these import (the reader of audit segments, the model, the errors), and their packages.
Executors need a Python like the driver's with msgspec, pyarrow and zstandard; the driver needs jinja2 and pandas as
well (Spark asks for the version of pandas).
"""

import ast
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

ZIP_NAME: Final = "controllerd_replay.zip"
MAIN_NAME: Final = "replay_main.py"
_PROJECT: Final = "controllerd"
SHIPPED: Final = ("controllerd.record", "replay")
"""Packages whose modules are all in the zip, whether the job imports them or not."""
_OURS: Final = frozenset({"broker", "channel_manager", "controllerd", "events", "handlers", "replay", "wire"})
_FIRST_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o100644 << 16
_UNIX: Final = 3
_MAIN: Final = '''"""Replays logs of a controller: spark-submit --py-files {zip} {main} --input PATH --out DIR."""

import sys

from replay.job.main import main

sys.exit(main(sys.argv[1:]))
'''


class Package(NamedTuple):
    """The two files for ``spark-submit --py-files ZIP MAIN``."""

    zip: Path
    main: Path


def write_package(folder: Path) -> Package:
    """Write the zip and the script; the same sources give the same bytes. :raises OSError: the folder refuses."""
    folder.mkdir(parents=True, exist_ok=True)
    package = Package(folder / ZIP_NAME, folder / MAIN_NAME)
    with zipfile.ZipFile(package.zip, "w") as archive:
        for name, content in sorted(_contents().items()):
            archive.writestr(_entry(name), content, zipfile.ZIP_DEFLATED)
    package.main.write_text(_MAIN.format(zip=ZIP_NAME, main=MAIN_NAME))
    return package


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry of the archive, without attributes that differ between machines."""
    entry = zipfile.ZipInfo(name, _FIRST_MOMENT)
    entry.external_attr, entry.create_system = _READABLE, _UNIX
    return entry


def _contents() -> dict[str, bytes]:
    """Return every file by its name in the archive: our modules, and the data files beside them."""
    found: dict[str, bytes] = {}
    for module in modules():
        path = _source(module)
        folder = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found[f"{folder.replace('.', '/')}/{path.name}"] = path.read_bytes()
        found |= {f"{folder.replace('.', '/')}/{name}": content for name, content in _data(files(folder))}
    return found | _metadata()


def _metadata() -> dict[str, bytes]:
    """Return the metadata with the version, for a process in which the project is not installed."""
    number = version(_PROJECT)
    said = f"Metadata-Version: 2.1\nName: {_PROJECT}\nVersion: {number}\n"
    return {f"{_PROJECT}-{number}.dist-info/METADATA": said.encode()}


def _data(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """Return the files of a package that are no modules, also from folders that are no packages."""
    for item in folder.iterdir():
        if item.is_file() and not item.name.endswith((".py", ".pyc")):
            yield prefix + item.name, item.read_bytes()
        elif item.is_dir() and item.name != "__pycache__" and not (item / "__init__.py").is_file():
            yield from _data(item, f"{prefix}{item.name}/")


def modules() -> list[str]:
    """Return the modules in the zip by dotted name, packages included, sorted.

    They are the modules of ``SHIPPED``, and every module of this project that one of them imports, lazily or not.
    """
    seen: set[str] = set()
    todo = [module for package in SHIPPED for module in _modules_of(package)]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _imports(name)
            todo += [name.rpartition(".")[0]] * ("." in name)
    return sorted(seen)


def _modules_of(package: str) -> Iterator[str]:
    """Return the modules of a package and of the packages in it."""
    for item in files(package).iterdir():
        if item.is_dir() and (item / "__init__.py").is_file():
            yield from _modules_of(f"{package}.{item.name}")
        elif item.name.endswith(".py"):
            yield f"{package}.{item.name.removesuffix('.py')}".removesuffix(".__init__")


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(_source(module).read_bytes())):
        if isinstance(node, ast.Import):
            yield from filter(_is_ours, (alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from filter(_is_ours, (node.module, *inner))


def _is_ours(name: str) -> bool:
    if name.partition(".")[0] not in _OURS:
        return False
    parent = name.rpartition(".")[0]
    if parent and not _is_package(parent):
        return False
    return find_spec(name) is not None


def _is_package(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _source(module: str) -> Traversable:
    package, _, name = module.rpartition(".")
    return files(module) / "__init__.py" if _is_package(module) else files(package) / f"{name}.py"


if __name__ == "__main__":
    write_package(Path(sys.argv[1]))
