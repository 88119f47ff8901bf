"""The modules in the zip of the Spark job, found from syntax trees alone: no Spark is started."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from replay.job.package import SHIPPED, modules

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = ("broker", "channel_manager", "cli", "controllerd", "events", "handlers", "replay", "wire")
BELOW: Final = ("controllerd.audit", "controllerd.core", "controllerd.errors", "events")
"""The packages that the shipped ones may import: the reader of audit segments, the model, the errors, the events."""


def source(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def is_module(name: str) -> bool:
    return name.partition(".")[0] in OURS and source(name).is_file()


def imports(module: str) -> Iterator[str]:
    """The modules of this tree that a module imports, lazy imports included."""
    for node in ast.walk(ast.parse(source(module).read_text())):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases if is_module(alias.name))
            case ast.ImportFrom(module=str(parent), names=aliases):
                names = (parent, *(f"{parent}.{alias.name}" for alias in aliases))
                yield from filter(is_module, names)
            case _:
                pass


@pytest.fixture(scope="module")
def shipped() -> frozenset[str]:
    """The modules in the zip; to collect them takes about a second."""
    return frozenset(modules())


def in_package(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_the_zip_has_every_module_of_the_record_and_of_the_replay(shipped: frozenset[str]) -> None:
    paths = [path for package in SHIPPED for path in source(package).parent.rglob("*.py")]
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths}

    assert SHIPPED == ("controllerd.record", "replay")
    assert names - shipped == set()


def test_no_module_in_the_zip_imports_one_of_ours_outside_it(shipped: frozenset[str]) -> None:
    outside = {name: sorted(set(imports(name)) - shipped) for name in shipped}

    assert {name: missing for name, missing in outside.items() if missing} == {}


def test_every_package_above_a_module_is_in_the_zip(shipped: frozenset[str]) -> None:
    assert {name.rpartition(".")[0] for name in shipped if "." in name} - shipped == set()


def test_of_the_daemon_only_the_record_the_reader_the_model_and_the_events_are_in_the_zip(
    shipped: frozenset[str],
) -> None:
    packages = {"controllerd", *SHIPPED}

    assert [name for name in sorted(shipped) if name not in packages and not in_package(name, (*SHIPPED, *BELOW))] == []
