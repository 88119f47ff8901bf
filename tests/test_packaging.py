"""The wheel ships our top-level names and nothing else, and the pure modules need nothing but Python."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = Path(__file__).resolve().parents[1]
TOP_LEVEL: Final = ("controllerd", "events", "handlers", "channel_manager", "wire", "replay", "cli")
DEVELOPMENT: Final = ("controllerd/dev", "broker")
"""Packages of the tree that the wheel leaves out."""
NOT_SHIPPED: Final = frozenset({"bench", "broker", "tests"})
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS: Final = ("requirements.lock", "requirements-quick.lock", "requirements-build.lock")
PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built offline from a copy of the tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in (*TOP_LEVEL, "broker"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))

    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*command, "--no-build-isolation", "--wheel-dir", str(out), str(source)], check=True)

    (built,) = out.glob("controllerd-*.whl")
    return built


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """The files of that wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def pins(lock: str) -> dict[str, Version]:
    """The pinned version of each distribution in a lock file."""
    matches = (PIN.match(line) for line in (ROOT / lock).read_text().splitlines())
    return {canonicalize_name(match[1]): Version(match[2]) for match in matches if match}


def test_the_wheel_holds_exactly_our_top_level_names(wheel_names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_names}

    assert {top for top in tops if not top.endswith(".dist-info")} == set(TOP_LEVEL)


def test_the_wheel_holds_every_file_of_the_packages(wheel_names: set[str]) -> None:
    paths = [path for name in TOP_LEVEL for path in (ROOT / name).rglob("*") if path.is_file()]
    files = {path.relative_to(ROOT).as_posix() for path in paths if path.parent.name != "__pycache__"}
    development = {file for file in files if is_development(file)}

    assert files - wheel_names == development


def is_development(file: str) -> bool:
    """Whether a file belongs to one of the packages that only the tree has."""
    return file.startswith(tuple(f"{package}/" for package in DEVELOPMENT))


def test_the_wheel_holds_no_development_code(wheel_names: set[str]) -> None:
    assert {name for name in wheel_names if is_development(name)} == set()
    assert [package for package in DEVELOPMENT if not (ROOT / package).is_dir()] == []


@pytest.mark.parametrize("command", ["demo", "dev"])
def test_the_commands_of_the_tree_name_what_they_require_where_the_wheel_runs(
    wheel: Path, tmp_path: Path, command: str
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    path = (tmp_path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))

    done = subprocess.run(
        # Without `site`, which would add the tree that the environment of the tests is set up from.
        [sys.executable, "-S", "-P", "-m", "controllerd", command],
        env={"PYTHONPATH": ":".join(map(str, path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert f"`controllerd {command}` requires the development tree" in done.stderr
    assert f"run `make {command}` in a clone of the repository" in done.stderr


def test_every_package_of_the_tree_is_shipped_or_known_not_to_be() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert packages - NOT_SHIPPED == set(TOP_LEVEL)


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_a_top_level_name_belongs_to_no_other_distribution(name: str) -> None:
    assert set(importlib.metadata.packages_distributions()[name]) == {"controllerd"}


def test_discovery_names_each_package() -> None:
    include = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]

    assert include == [entry for name in TOP_LEVEL for entry in (name, f"{name}.*")]
    assert PROJECT["tool"]["setuptools"]["packages"]["find"]["exclude"] == ["controllerd.dev", "controllerd.dev.*"]


def test_the_upload_to_a_public_index_is_refused() -> None:
    assert "Private :: Do Not Upload" in PROJECT["project"]["classifiers"]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_host_and_no_option(lock: str) -> None:
    lines = (ROOT / lock).read_text().splitlines()

    assert [line for line in lines if "://" in line or line.startswith("-")] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_of_a_lock_carries_a_hash(lock: str) -> None:
    text = (ROOT / lock).read_text().replace("\\\n", " ")

    assert [line for line in text.splitlines() if not re.search(r"==.* --hash=sha256:[0-9a-f]{64}", line)] == []


def unsatisfied(requirements: list[str], lock: str) -> list[str]:
    """The requirements that no pin of the lock meets."""
    locked = pins(lock)
    wanted = [(canonicalize_name(r.name), r) for r in map(Requirement, requirements)]
    return [str(r) for name, r in wanted if name not in locked or locked[name] not in r.specifier]


def test_the_lock_satisfies_every_requirement() -> None:
    project = PROJECT["project"]
    extras = [text for extra in project["optional-dependencies"].values() for text in extra]

    assert unsatisfied([*project["dependencies"], *extras], "requirements.lock") == []


def test_the_quick_lock_satisfies_the_dependencies_and_the_quick_extra() -> None:
    project = PROJECT["project"]

    assert unsatisfied([*project["dependencies"], *project["optional-dependencies"]["quick"]], LOCKS[1]) == []


def test_the_quick_lock_is_what_the_whole_lock_says_of_fewer_distributions() -> None:
    whole = set((ROOT / "requirements.lock").read_text().splitlines())
    quick = set((ROOT / "requirements-quick.lock").read_text().splitlines())

    assert quick - whole == set()


@pytest.mark.parametrize("name", ["pyspark", "pandas", "pyarrow", "duckdb", "confluent-kafka"])
def test_the_quick_lock_leaves_out_what_is_large_or_needs_java(name: str) -> None:
    assert name in pins("requirements.lock")
    assert name not in pins("requirements-quick.lock")


def test_the_build_lock_satisfies_the_build_requirements() -> None:
    assert unsatisfied(PROJECT["build-system"]["requires"], "requirements-build.lock") == []


def pure_modules() -> list[str]:
    """The modules that travel alone: to Spark executors, and into anybody's notebook."""
    folders = [*(ROOT / "controllerd" / "core").rglob("*.py"), *(ROOT / "events").rglob("*.py")]
    replay = [ROOT / "replay" / f"{name}.py" for name in ("records", "fold", "invariants")]
    single = [ROOT / "channel_manager" / "batch.py", *replay]
    paths = [path for path in (*folders, *single) if path.exists() and path.name != "__init__.py"]
    return sorted(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in paths)


@pytest.mark.parametrize("module", pure_modules())
def test_a_pure_module_needs_nothing_installed(module: str) -> None:
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}"

    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
