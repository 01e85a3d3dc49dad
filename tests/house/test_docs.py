"""What the documents say exists: commands, links, variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").glob("*.md")])
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMANDS = {
    p.stem for app in ("benchmarks", "capacity") for p in (ROOT / app / "management" / "commands").glob("[a-z]*.py")
}
DJANGO = {"check", "migrate", "makemigrations", "collectstatic", "createsuperuser", "shell"}


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_make_target_that_is_named_exists(document: Path):

    code = set(re.findall(r"`(?:[A-Z_]+=\S+ )?make ([a-z][a-z-]+)", document.read_text()))
    assert code - TARGETS == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_command_of_manage_py_that_is_named_exists(document: Path):
    named = set(re.findall(r"manage\.py ([a-z][a-z_]+)", document.read_text()))
    assert named - COMMANDS - DJANGO == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=ids)
def test_every_link_to_a_file_leads_somewhere(document: Path):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text())
    local = [link for link in links if not re.match(r"[a-z]+:|/", link)]
    assert [link for link in local if not (document.parent / link).exists()] == []


def test_the_readme_names_the_two_commands_of_a_newcomer():
    assert "\n```\nmake run\nmake test\n```\n" in (ROOT / "README.md").read_text()


def test_every_target_of_the_makefile_is_in_its_help():
    text = (ROOT / "Makefile").read_text()
    assert {name for name in TARGETS if not re.search(rf"^{name}: .*## \S", text, re.MULTILINE)} == set()


def test_every_variable_of_the_example_is_one_that_the_settings_read():
    settings = (ROOT / "capacity" / "settings.py").read_text()
    example = (ROOT / "deploy" / "headroom.env.example").read_text()
    named = set(re.findall(r"^#?\s*([A-Z][A-Z_]+?)(?:_FILE)?=", example, re.MULTILINE))
    # One name ends in _FILE by itself: that of the host's own file.
    assert {name for name in named if f'"{name}"' not in settings and f'"{name}_FILE"' not in settings} == set()
