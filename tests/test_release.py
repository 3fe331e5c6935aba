"""A release: one version everywhere, a changelog with its date, archives and wheels that are complete."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml

import dglite
from dglite.compat import top

ROOT = Path(__file__).parents[1]
BUILT_FROM = "setup.cfg pyproject.toml MANIFEST.in README.md LICENSE CHANGELOG.md CITATION.cff constraints.txt".split()
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
"""Of a version in the changelog, in their order there."""
BUILD = """
import pathlib, shutil
from setuptools import build_meta
archive = build_meta.build_sdist("dist")
shutil.unpack_archive(pathlib.Path("dist", archive), "unpacked", filter="data")
"""
"""Makes dist/*.tar.gz and unpacks it."""


def _config(path: str) -> ConfigParser:
    config = ConfigParser()
    config.read(ROOT / path, encoding="utf-8")
    return config


def _versions() -> list[tuple[str, str | None, str]]:
    """Return version, date and text of each section of the changelog, the newest first."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## \[(.+)\](?: - (\S+))?$", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))


# -- one version -------------------------------------------------------------------------------------------------------
def test_the_version_is_written_in_the_package() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", dglite.__version__)
    assert _config("setup.cfg")["metadata"]["version"] == "attr: dglite.__version__"


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    _, (version, date, _), *_ = _versions()
    assert citation["version"] == version == dglite.__version__
    assert str(citation["date-released"]) == date


def test_the_distribution_dgl_belongs_to_this_version() -> None:
    shim = _config("shim/setup.cfg")
    assert shim["metadata"]["version"] == top.__version__
    assert shim["options"]["install_requires"].split() == [f"dglite>={dglite.__version__}"]
    assert (ROOT / "shim" / "LICENSE").read_text(encoding="utf-8") == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_changelog_has_dated_versions_below_what_is_unreleased() -> None:
    (first, no_date, _), *released = _versions()
    assert (first, no_date) == ("Unreleased", None)
    numbers = [tuple(map(int, version.split("."))) for version, _, _ in released]
    dates = [datetime.date.fromisoformat(str(date)) for _, date, _ in released]
    assert numbers == sorted(set(numbers), reverse=True)
    assert dates == sorted(dates, reverse=True)


def test_each_section_of_the_changelog_is_there_once_and_in_order() -> None:
    for version, _, text in _versions():
        headings = re.findall(r"^### (.+)$", text, flags=re.MULTILINE)
        assert headings == [name for name in SECTIONS if name in headings], version


# -- what is published -------------------------------------------------------------------------------------------------
def _workflow() -> dict:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8"))


def test_the_workflow_publishes_dglite_by_trusted_publishing() -> None:
    workflow = _workflow()
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as a boolean
    assert workflow["permissions"] == {"contents": "read"}
    publishing = {
        name: job
        for name, job in workflow["jobs"].items()
        if any(step.get("uses", "").startswith("pypa/gh-action-pypi-publish@") for step in job["steps"])
    }
    (job,) = publishing.values()
    assert job["permissions"] == {"id-token": "write"} and job["environment"] and job["needs"] == "build"
    assert "password" not in str(job)
    (removal,) = (step["run"] for step in job["steps"] if "run" in step)
    assert removal == "rm dist/dgl-*"  # decision 237


@pytest.mark.skipif(sys.platform != "linux", reason="a command of the workflow, whose system is Linux")
def test_links_of_the_page_on_the_index_are_complete(tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    (command,) = (step["run"] for step in _workflow()["jobs"]["build"]["steps"] if "README.md" in step.get("run", ""))
    names = {"GITHUB_SERVER_URL": "https://site", "GITHUB_REPOSITORY": "who/dglite", "GITHUB_REF_NAME": "v1.2.3"}
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, env={**os.environ, **names}, check=True)
    before, after = ((folder / "README.md").read_text(encoding="utf-8") for folder in (ROOT, tmp_path))
    link = re.compile(r'(?:\]\(|\bsrc="|\bsrcset=")([^)"]+)')
    for old, new in zip(link.findall(before), link.findall(after), strict=True):
        kind = "raw" if old.endswith(".svg") else "blob"
        assert new == (old if old.startswith("https:") else f"https://site/who/dglite/{kind}/v1.2.3/{old}")
    assert before != after


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the source archive holds, built from a copy of what the repository has."""
    pytest.importorskip("setuptools", minversion="77", reason="builds an archive without isolation")
    folder = tmp_path_factory.mktemp("release")
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "dglite", folder / "dglite", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests").mkdir()
    (folder / "tests" / "test_part.py").touch()
    _run(BUILD, folder)
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


def _run(code: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _package() -> set[str]:
    files = (path for path in (ROOT / "dglite").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_source_archive_has_the_package_and_no_half_of_the_tests(archive: Path) -> None:
    assert archive.name == f"dglite-{dglite.__version__}"
    files = {path.relative_to(archive).as_posix() for path in archive.rglob("*") if path.is_file()}
    assert {name for name in files if name.startswith("dglite/")} == _package()
    assert set(BUILT_FROM) <= files
    assert not [name for name in files if name.startswith("tests/")]


def test_the_wheel_of_the_archive_has_every_file_of_the_package(archive: Path) -> None:
    _run("from setuptools import build_meta; build_meta.build_wheel('dist')", archive)
    (path,) = (archive / "dist").glob("*.whl")
    assert path.name == f"dglite-{dglite.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
    data = {name for name in names if ".dist-info/" in name}
    assert names - data == _package()
    assert any(name.endswith("licenses/LICENSE") for name in data)


def test_the_archive_of_dgl_has_its_module_and_the_licence(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77", reason="builds an archive without isolation")
    shim = tmp_path / "shim"
    shutil.copytree(ROOT / "shim", shim, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    _run("from setuptools import build_meta; build_meta.build_sdist('dist')", shim)
    (path,) = (shim / "dist").iterdir()
    with tarfile.open(path) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
        licence = next(member for member in file.getmembers() if member.name.endswith("/LICENSE"))
    assert {"dgl/__init__.py", "LICENSE", "README.md", "setup.cfg", "pyproject.toml"} <= names
    assert licence.isreg()
