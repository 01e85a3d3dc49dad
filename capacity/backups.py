"""The whole installation's rows in one file: written of one moment, checked without a database, restored into an empty
one of either kind. So it is also the way from SQLite to PostgreSQL and back.

Not in it: sessions, and what lies in files beside the database (signing keys, the host's own file, settings).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, models, transaction
from django.utils import timezone

from benchmarks import audit, triggers
from benchmarks.models import Event, Evidence, EvidenceChunk
from capacity import rows
from capacity.rows import BadRowsError, Row

FORMAT = 1
MANIFEST = "manifest.json"
MOST_MANIFEST_BYTES = 1024 * 1024
LEFT_OUT = frozenset({"sessions", "contenttypes", "admin"})
_NOT_KEPT = frozenset({"auth.permission"})


class BackupRefused(ValueError):
    """It cannot be written or restored; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a checked file holds."""

    made_at: str
    rows: Mapping[str, int]
    evidence: int
    audit_head: str


def kept_models() -> list[type[models.Model]]:
    """Every table that is kept, those that are pointed at before those that point."""
    found = [m for m in apps.get_models(include_auto_created=True) if _is_kept(m)]
    order: list[type[models.Model]] = []

    def place(model: type[models.Model], above: tuple[type[models.Model], ...] = ()) -> None:
        if model in order or model in above or model not in found:
            return
        for field in rows.columns(model):
            if field.related_model is not None:
                place(field.related_model, (*above, model))
        order.append(model)

    for model in sorted(found, key=lambda m: m._meta.label_lower):
        place(model)
    return order


def write(path: Path) -> Kept:
    """Raises BackupRefused where the file is there already."""
    with _one_moment():
        parts = (
            (model, map(rows.as_row, model._base_manager.order_by("pk").iterator(chunk_size=50)))
            for model in kept_models()
        )
        pack(path, parts, lambda: {"audit_head": audit.head()})
    try:
        return check(path)
    except BackupRefused:
        path.unlink()
        raise


def pack(
    path: Path, parts: Iterable[tuple[type[models.Model], Iterable[Row]]], facts: Callable[[], dict[str, object]]
) -> int:
    """Rows by table and a manifest with their digests and `facts`, in one file that only its owner reads and that is there
    when it is whole; how many rows. Raises BackupRefused where the file is there already."""
    if path.exists():
        raise BackupRefused(f"{path} is there already. Name a file that is not.")
    part = path.with_name(path.name + ".part")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".headroom-") as name:
        folder, tables = Path(name), {}
        for number, (model, found) in enumerate(parts):
            member = f"{number:02}-{model._meta.label_lower}.jsonl.gz"
            count, sha256 = rows.write(folder / member, found)
            tables[model._meta.label_lower] = {"file": member, "rows": count, "sha256": sha256}
        manifest = {"format": FORMAT, "made_at": timezone.now().isoformat(), "tables": tables} | facts()
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True))
        part.touch(mode=0o600)
        with tarfile.open(part, "w") as tar:
            for member in sorted(each.name for each in folder.iterdir()):
                tar.add(folder / member, member)
    part.replace(path)
    return sum(int(str(table["rows"])) for table in tables.values())


def check(path: Path) -> Kept:
    """Reads the whole file: every digest of its own, every digest of evidence, every link of the audit chain. Raises
    BackupRefused naming the first that does not hold."""
    with opened(path) as (folder, manifest):
        evidence = check_evidence(folder, manifest)
        broken = audit.broken_links(cast(Event, rows.from_row(Event, row)) for row in rows_of(folder, manifest, Event))
        if broken:
            raise BackupRefused(f"The audit chain of {path} is broken at {broken[0].sequence}: {broken[0].what}.")
        for model in kept_models():
            for _ in rows_of(folder, manifest, model):
                pass
        return _kept(manifest, evidence)


def restore(path: Path) -> Kept:
    """Fills an empty, migrated database, all or nothing, and checks what then stands there. Raises BackupRefused."""
    kept = check(path)
    if held := _held():
        raise BackupRefused(
            f"This database is not empty ({held}). Restore into a new one, made by `manage.py migrate`."
        )
    with opened(path) as (folder, manifest), transaction.atomic():
        triggers.take_away()
        Event.objects.all().delete()
        for model in kept_models():
            for row in rows_of(folder, manifest, model):
                rows.insert(rows.from_row(model, row))
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), kept_models()):
                cursor.execute(statement)
        triggers.reinstall()
        _check_stored(kept)
        audit.record(
            actor="command", verb="restored a backup", subject="installation", after=kept.audit_head,
            changes={"made_at": kept.made_at, "evidence": kept.evidence},
        )  # fmt: skip
    return kept


def _is_kept(model: type[models.Model]) -> bool:
    meta = model._meta
    if meta.app_label in LEFT_OUT or meta.label_lower in _NOT_KEPT or meta.proxy or not meta.managed:
        return False
    return all(
        f.related_model is None or f.related_model._meta.label_lower not in _NOT_KEPT for f in rows.columns(model)
    )


@contextlib.contextmanager
def _one_moment() -> Iterator[None]:
    """All reads inside see the database of one moment, and nobody who writes has to wait."""
    if connection.in_atomic_block:
        yield
        return
    begin = {
        "sqlite": "BEGIN DEFERRED", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    }[connection.vendor]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(begin)
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    try:
        with tempfile.TemporaryDirectory(prefix="headroom-backup-") as name:
            with tarfile.open(path, "r:") as tar:
                tar.extractall(name, filter="data")
            folder = Path(name)
            manifest = json.loads((folder / MANIFEST).read_bytes()[:MOST_MANIFEST_BYTES])
            if manifest["format"] != FORMAT:
                raise BackupRefused(f"{path} has format {manifest['format']}; this version reads {FORMAT}.")
            yield folder, manifest
    except (OSError, tarfile.TarError, KeyError, json.JSONDecodeError) as error:
        raise BackupRefused(f"{path} is not a backup of Headroom, or is damaged: {error}") from error
    except BadRowsError as error:
        raise BackupRefused(str(error)) from error


def rows_of(folder: Path, manifest: dict[str, Any], model: type[models.Model]) -> Iterator[Row]:
    table = manifest["tables"][model._meta.label_lower]
    return rows.read(folder / Path(table["file"]).name, count=table["rows"], sha256=table["sha256"])


def check_evidence(folder: Path, manifest: dict[str, Any]) -> int:
    """How much evidence there is; its pieces were written in order."""
    digests: dict[int, Any] = {}
    for row in rows_of(folder, manifest, EvidenceChunk):
        piece = cast(EvidenceChunk, rows.from_row(EvidenceChunk, row))
        digests.setdefault(piece.evidence_id, hashlib.sha256()).update(bytes(piece.content))
    count = 0
    for row in rows_of(folder, manifest, Evidence):
        count += 1
        if row["id"] not in digests or digests[row["id"]].hexdigest() != row["sha256"]:
            raise BackupRefused(
                f"The evidence of cell {row['cell_id']} does not have the digest that was kept with it."
            )
    return count


def _held() -> str:
    """What stands in this database beyond what a migration writes; empty where nothing does."""
    for model in kept_models():
        most = 1 if model is Event else 0  # the first link of the audit chain
        count = model._base_manager.count()
        if count > most:
            return f"{count} rows in {model._meta.label_lower}"
    return ""


def _check_stored(kept: Kept) -> None:
    for model in kept_models():
        if (count := model._base_manager.count()) != kept.rows[model._meta.label_lower]:
            raise BackupRefused(
                f"{model._meta.label_lower}: {count} rows stand there, {kept.rows[model._meta.label_lower]} came."
            )
    if audit.head() != kept.audit_head or audit.broken_links():
        raise BackupRefused("The audit chain does not stand as it was written; nothing was restored.")
    if gone := triggers.missing():
        raise BackupRefused(f"Protecting triggers are missing: {', '.join(gone)}. Nothing was restored.")


def _kept(manifest: dict[str, Any], evidence: int) -> Kept:
    return Kept(
        made_at=str(manifest["made_at"]),
        rows={name: int(table["rows"]) for name, table in manifest["tables"].items()},
        evidence=evidence,
        audit_head=str(manifest["audit_head"]),
    )
