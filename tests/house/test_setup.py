"""A newcomer's machine may lack something: each lack ends in one line that says what to do, and nothing half built stays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What set-up needs of a fresh clone, without a .venv."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "bootstrap.py", tmp_path / "scripts")
    for name in (
        "Makefile",
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-real.txt",
        "requirements-tokenizer.txt",
        "constraints.txt",
    ):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def set_up(clone: Path, before: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Runs bootstrap.py as a program after `before`, a line of Python that takes something away."""
    program = str(clone / "scripts" / "bootstrap.py")
    code = f"import runpy, sys\n{before}\nsys.argv = [{program!r}, 'run']\nrunpy.run_path({program!r}, run_name='__main__')"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=clone, env=plain | NOWHERE | env, capture_output=True, text=True, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(("version", "word"), [("(3, 10, 9)", "old"), ("(3, 15, 0)", "new")])
def test_a_python_that_does_not_fit_is_named_with_the_versions_that_do(clone: Path, version: str, word: str):
    said = last_line(set_up(clone, f"import shutil; shutil.which = lambda name: None; sys.version_info = {version}"))
    assert f"is too {word}: install one of 3.11 to 3.14" in said
    assert "PYTHON=" in said


def test_without_the_venv_module_the_package_to_install_is_named_and_no_venv_is_left(clone: Path):
    said = last_line(set_up(clone, "sys.modules['ensurepip'] = None"))
    assert "no venv module" in said
    assert f"python3.{sys.version_info.minor}-venv" in said
    assert not (clone / ".venv").exists()


def test_without_a_registry_the_mirror_variable_is_named_and_the_next_try_goes_on(clone: Path):
    for _ in range(2):
        said = last_line(set_up(clone))
        assert "no package registry" in said
        assert "PIP_INDEX_URL" in said
    assert (clone / "var" / "install.log").read_text()


def test_a_half_built_venv_is_built_anew(clone: Path):
    (clone / ".venv" / "bin").mkdir(parents=True)
    done = set_up(clone)
    assert "half built" in done.stdout
    assert "no package registry" in last_line(done)
    assert (
        subprocess.run(
            [clone / ".venv" / "bin" / "python", "-m", "pip", "--version"], capture_output=True, check=False
        ).returncode
        == 0
    )


def test_a_folder_that_cannot_be_written_is_named(clone: Path):
    take_away = (
        "import tempfile, errno\ndef no(**_): raise OSError(errno.EROFS, 'Read-only file system')\n"
        "tempfile.TemporaryFile = no"
    )
    said = last_line(set_up(clone, take_away))
    assert (
        said
        == f"headroom: cannot write in {clone} (Read-only file system): clone Headroom into a folder of your own and run it there"
    )


def test_no_python_at_all_is_one_line_of_make(clone: Path):
    done = subprocess.run(
        ["make", "run", "PYTHON=python-that-is-not-here"], cwd=clone, capture_output=True, text=True, check=False
    )
    assert "no python-that-is-not-here here: install Python 3.11 to 3.14" in done.stderr
