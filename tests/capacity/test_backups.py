"""A backup is whole or refused, and what is restored or imported is what was written."""

from __future__ import annotations

import io
import json
import tarfile

import pytest

from benchmarks import audit
from benchmarks.drafts import Confirms
from benchmarks.models import Attempt, Authorization, Cell, Conditions, Evidence, EvidenceChunk, Grid
from benchmarks.records.modes import OpenTerms
from capacity import backups, grid_files
from tests import factories
from tests.benchmarks.runs import protected
from tests.benchmarks.runs.installation import Installation

pytestmark = pytest.mark.django_db


def members(path):
    with tarfile.open(path) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}


def rewritten(path, target, change):
    """The same tar with its members changed by `change(name, bytes)`."""
    with tarfile.open(target, "w") as tar:
        for name, data in members(path).items():
            found = change(name, data)
            info = tarfile.TarInfo(name)
            info.size = len(found)
            tar.addfile(info, io.BytesIO(found))
    return target


def tables(path):
    manifest = json.loads(members(path)["manifest.json"])
    return {name: (table["rows"], table["sha256"]) for name, table in manifest["tables"].items()}


@pytest.fixture
def world():
    return protected.make_world()


@pytest.fixture
def backup(world, tmp_path):
    path = tmp_path / "kept.tar"
    backups.write(path)
    return path


def test_a_backup_tells_what_it_holds(backup):
    kept = backups.check(backup)
    held = (kept.rows["benchmarks.grid"], kept.evidence, kept.audit_head)
    assert held == (Grid.objects.count(), 1, audit.head())


def test_only_its_owner_reads_a_backup(backup):
    assert oct(backup.stat().st_mode & 0o777) == "0o600"


def test_no_session_and_no_secret_of_a_file_goes_along(backup):
    assert not [name for name in tables(backup) if name.startswith(("sessions.", "contenttypes."))]


def test_a_backup_never_overwrites(backup):
    with pytest.raises(backups.BackupRefused, match="is there already"):
        backups.write(backup)


def without_last_byte(name, data):
    return data[:-1] if "evidencechunk" in name else data


def another_digest(name, data):
    return data.replace(b'"sha256": "', b'"sha256": "0', 1) if name == "manifest.json" else data


def newer(name, data):
    return data.replace(b'"format": 1', b'"format": 2') if name == "manifest.json" else data


def no_manifest(name, data):
    return b"{}" if name == "manifest.json" else data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_last_byte, "damaged"), (another_digest, "changed after it was written"), (newer, "has format 2"),
        (no_manifest, "not a backup of Headroom"),
    ],
)  # fmt: skip
def test_what_was_changed_is_refused_with_words(backup, tmp_path, change, words):
    with pytest.raises(backups.BackupRefused, match=words):
        backups.check(rewritten(backup, tmp_path / "changed.tar", change))


@pytest.mark.parametrize("data", [b"", b"no tar at all", b"\0" * 10240])
def test_what_is_no_backup_is_refused(tmp_path, data):
    path = tmp_path / "other.tar"
    path.write_bytes(data)
    with pytest.raises(backups.BackupRefused):
        backups.check(path)


def test_a_link_out_of_the_tar_is_not_followed(backup, tmp_path):
    path = tmp_path / "linked.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("manifest.json")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(backups.BackupRefused):
        backups.check(path)


def test_a_database_with_rows_takes_no_backup(backup):
    with pytest.raises(backups.BackupRefused, match="is not empty"):
        backups.restore(backup)


def test_a_restored_installation_writes_the_same_backup(backup, tmp_path):
    house = Installation(tmp_path / "new")
    (tmp_path / "new").mkdir()
    house.migrate()
    assert "digests, audit chain and triggers hold" in house.manage("restore", str(backup))
    house.manage("backup", str(tmp_path / "again.tar"))
    before, after = tables(backup), tables(tmp_path / "again.tar")
    differing = {name for name in before if before[name] != after[name]}
    assert (differing, after["benchmarks.event"][0] - before["benchmarks.event"][0]) == ({"benchmarks.event"}, 1)
    assert "unbroken chain" in house.manage("backup", str(tmp_path / "again.tar"), "--check")


def counts(grid):
    cells = Cell.objects.filter(grid=grid)
    return {
        "cells": sorted(cells.values_list("setting", "class_name", "repeat", "status", "attempt")),
        "attempts": Attempt.objects.filter(cell__in=cells).count(),
        "evidence": sorted(Evidence.objects.filter(cell__in=cells).values_list("sha256", "requests", "attempt")),
        "pieces": [bytes(p.content) for p in EvidenceChunk.objects.filter(evidence__cell__in=cells).order_by("number")],
        "leave": list(
            Authorization.objects.filter(grid=grid).values_list("grid_digest", "max_requests", "valid_until")
        ),
        "room": list(Conditions.objects.filter(grid=grid).values_list("phase", "room", "power_source", "at")),
        "plan": (grid.digest, grid.declared, grid.limits, grid.drawn_at, grid.drawn_by.username),
    }


@pytest.fixture
def ended(world):
    Grid.objects.filter(pk=world.grid.pk).update(status="stopped")
    world.grid.refresh_from_db()
    return world.grid


def test_a_grid_moves_to_another_installation(ended, tmp_path):
    path = tmp_path / "grid.tar"
    grid_files.write(ended, path)
    house = Installation(tmp_path / "new")
    (tmp_path / "new").mkdir()
    house.migrate()
    assert "is here now" in house.manage("import_grid", str(path))
    house.manage("verify_audit")
    house.manage("backup", str(tmp_path / "there.tar"))
    there, here = tables(tmp_path / "there.tar"), counts(ended)
    assert there["benchmarks.cell"][0] == len(here["cells"])
    assert there["benchmarks.evidence"][0] == len(here["evidence"])
    again = tmp_path / "back.tar"
    house.manage("export_grid", "1", str(again))
    assert members(again).keys() == members(path).keys()


def test_a_grid_that_is_here_already_is_refused(ended, tmp_path):
    path = tmp_path / "grid.tar"
    grid_files.write(ended, path)
    with pytest.raises(backups.BackupRefused, match=f"is here already, as grid {ended.pk}"):
        grid_files.read(path)


def test_two_grids_of_one_runtime_share_the_registry_there(ended, tmp_path):
    other = factories.make_grid(runtime=ended.runtime, workload=ended.workload)
    Grid.objects.filter(pk=other.pk).update(status="withdrawn")
    other.refresh_from_db()
    house = Installation(tmp_path / "new")
    (tmp_path / "new").mkdir()
    house.migrate()
    for grid in (ended, other):
        grid_files.write(grid, tmp_path / f"{grid.pk}.tar")
        house.manage("import_grid", str(tmp_path / f"{grid.pk}.tar"))
    house.manage("backup", str(tmp_path / "there.tar"))
    there = tables(tmp_path / "there.tar")
    shared = {
        name: there[f"benchmarks.{name}"][0] for name in ("grid", "runtime", "workload", "hardware", "lengthclass")
    }
    classes = ended.workload.classes.count()
    assert shared == {"grid": 2, "runtime": 1, "workload": 1, "hardware": 1, "lengthclass": classes}


def test_a_confirmation_follows_the_grid_that_it_confirms(ended, tmp_path):
    other = factories.make_grid(
        ended.runtime, ended.workload, settings=(60,), class_names=["mixed"], load=OpenTerms(max_in_flight=30),
        confirms=Confirms(grid=ended, setting=ended.setting_values[0], queue_cap=4),
    )  # fmt: skip
    Grid.objects.filter(pk=other.pk).update(status="withdrawn")
    other.refresh_from_db()
    for grid in (ended, other):
        grid_files.write(grid, tmp_path / f"{grid.pk}.tar")

    def unknown(name, data):
        if name != "manifest.json":
            return data
        told = json.loads(data)
        told["confirms"][1] = "0" * 64
        return json.dumps(told).encode()

    alone = rewritten(tmp_path / f"{other.pk}.tar", tmp_path / "alone.tar", unknown)
    with pytest.raises(backups.BackupRefused, match=f"It confirms grid {ended.pk} there, .* Import that one first"):
        grid_files.read(alone)
    house = Installation(tmp_path / "new")
    (tmp_path / "new").mkdir()
    house.migrate()
    for grid in (ended, other):
        house.manage("import_grid", str(tmp_path / f"{grid.pk}.tar"))
    assert house.rows("SELECT id, confirms_id, confirms_queue_cap FROM benchmarks_grid ORDER BY id") == [
        (1, None, None), (2, 1, 4),
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["draft", "authorized", "running"])
def test_a_grid_that_is_not_over_stays(status, tmp_path):
    grid = factories.make_grid()
    Grid.objects.filter(pk=grid.pk).update(status=status)
    grid.refresh_from_db()
    with pytest.raises(backups.BackupRefused, match=r"Stop it, or let it end, first\."):
        grid_files.write(grid, tmp_path / "grid.tar")


def test_a_whole_backup_is_no_grid(backup):
    with pytest.raises(backups.BackupRefused, match="is no grid's file"):
        grid_files.read(backup)
