"""`manage.py restore FILE`: fills an empty database, SQLite or PostgreSQL, from a backup, and checks what then stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from capacity import backups


class Command(BaseCommand):
    help = "Fills an empty database, SQLite or PostgreSQL, from a backup, and checks what then stands there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *_args: Any, file: Path, **_options: Any) -> None:
        try:
            kept = backups.restore(file)
        except backups.BackupRefused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Restored {sum(kept.rows.values())} rows and the evidence of {kept.evidence} cells; digests, audit chain and "
            "triggers hold. Now `manage.py recompute --all --check` compares every summary with its evidence."
        )
