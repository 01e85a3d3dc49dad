"""`manage.py import_grid`: takes in a grid that `export_grid` wrote, after checking every digest in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from capacity import backups, grid_files


class Command(BaseCommand):
    help = "Takes in a grid that `export_grid` wrote, on SQLite or PostgreSQL, after checking every digest in it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *_args: Any, file: Path, **_options: Any) -> None:
        try:
            grid = grid_files.read(file)
        except backups.BackupRefused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{grid} is here now. `manage.py recompute {grid.pk} --check` compares its summaries with its evidence."
        )
