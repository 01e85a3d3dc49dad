"""`manage.py export_grid`: writes one finished grid, with its evidence and all that it rests on, to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchmarks.models import Grid
from capacity import backups, grid_files


class Command(BaseCommand):
    help = "Writes one finished grid, with its evidence and all that it rests on, to a file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("grid", type=int, help="number of the grid")
        parser.add_argument("file", type=Path, metavar="FILE", help="such as grid-12.tar")

    def handle(self, *_args: Any, grid: int, file: Path, **_options: Any) -> None:
        found = Grid.objects.filter(pk=grid).first()
        if found is None:
            raise CommandError(f"There is no grid {grid}.")
        try:
            count = grid_files.write(found, file)
        except backups.BackupRefused as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{file}: {found}, {count} rows. `manage.py import_grid {file.name}` takes it in elsewhere.")
