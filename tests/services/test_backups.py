"""From SQLite to PostgreSQL and back: the same rows, and nothing that protects them is missing."""

from __future__ import annotations

import json
import tarfile

import pytest

from tests.benchmarks.runs.installation import Installation

pytestmark = pytest.mark.service

MADE = """
from tests.benchmarks.runs import protected
from benchmarks.models import Grid
world = protected.make_world()
Grid.objects.filter(pk=world.grid.pk).update(status="stopped")
answer = world.grid.pk
"""


def tables(path):
    with tarfile.open(path) as tar:
        manifest = json.loads(tar.extractfile("manifest.json").read())
    return {name: table["sha256"] for name, table in manifest["tables"].items() if name != "benchmarks.event"}


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small").mkdir()
    house = Installation(tmp_path / "small")
    house.migrate()
    house.grid = house.script(MADE)
    return house


@pytest.fixture
def large(tmp_path, postgres):
    (tmp_path / "large").mkdir()
    house = Installation(tmp_path / "large", DATABASE_URL=postgres)
    house.migrate()
    return house


def test_a_backup_goes_from_sqlite_to_postgresql_and_back(small, large, tmp_path):
    there, back = tmp_path / "there.tar", tmp_path / "back.tar"
    small.manage("backup", str(there))
    large.manage("restore", str(there))
    large.manage("check", "--database", "default", "--fail-level", "WARNING")
    large.manage("verify_audit")
    large.manage("backup", str(back))
    (tmp_path / "again").mkdir()
    again = Installation(tmp_path / "again")
    again.migrate()
    again.manage("restore", str(back))
    again.manage("verify_audit")
    assert tables(back) == tables(there)


def test_a_grid_goes_from_sqlite_to_postgresql_and_new_rows_follow_its_numbers(small, large, tmp_path):
    small.manage("export_grid", str(small.grid), str(tmp_path / "grid.tar"))
    large.manage("import_grid", str(tmp_path / "grid.tar"))
    large.manage("verify_audit")
    found = large.script("from tests import factories\nanswer = factories.make_grid().pk")
    cells = large.rows("SELECT count(*) FROM benchmarks_evidence")[0][0]
    assert (found, cells) == (2, 1)
