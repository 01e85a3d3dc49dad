"""`manage.py grid list|status|stop`: what runs, and stopping it. No command can authorise, approve or sign."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from benchmarks import queries, runs
from benchmarks.models import Grid


class Command(BaseCommand):
    help = "Lists grids, shows how far one is, or stops one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="grids, newest first")
        listing.add_argument("--limit", type=int, default=20)
        status = verbs.add_parser("status", help="how far a grid is; exits 1 while cells are left")
        status.add_argument("grid", type=int)
        stopping = verbs.add_parser("stop", help="stop a grid; finished cells are kept")
        stopping.add_argument("grid", type=int)
        stopping.add_argument("--how", choices=runs.HOW, default="drain")
        stopping.add_argument("--as", dest="username", required=True, help="whose stop it is, for the audit chain")
        for verb in (listing, status, stopping):
            verb.add_argument("--json", action="store_true", help="JSON instead of words")

    def handle(self, *, verb: str, **options: Any) -> None:
        if verb == "list":
            self._list(options)
        elif verb == "status":
            self._status(options)
        else:
            self._stop(options)

    def _list(self, options: dict[str, Any]) -> None:
        grids = Grid.objects.select_related("hardware").order_by("-pk")[: options["limit"]]
        if options["json"]:
            rows = [{"grid": g.pk, "name": g.name, "host": g.hardware.slug, "status": g.status} for g in grids]
            self.stdout.write(json.dumps(rows, indent=1))
            return
        for grid in grids:
            self.stdout.write(f"{grid.pk:>5}  {grid.status:<11} {grid.hardware.slug:<16} {grid.name}")

    def _status(self, options: dict[str, Any]) -> None:
        grid = _grid(options["grid"])
        found = queries.progress(grid)
        facts = {
            "grid": grid.pk, "status": found.status, "cells_finished": found.cells_finished, "cells_total": found.cells_total,
            "running": str(found.running) if found.running else None, "stop_reason": grid.stop_reason,
        }  # fmt: skip
        if options["json"]:
            self.stdout.write(json.dumps(facts, indent=1))
        else:
            self.stdout.write(
                f"{grid}: {grid.get_status_display().lower()}, {found.cells_finished} of {found.cells_total} cells"
            )
            if grid.stop_reason:
                self.stdout.write(grid.stop_reason)
        if found.cells_finished < found.cells_total:
            raise SystemExit(1)

    def _stop(self, options: dict[str, Any]) -> None:
        by = get_user_model().objects.filter(username=options["username"]).first()
        if by is None:
            raise CommandError(f"There is no account called {options['username']}.")
        try:
            runs.stop(grid=_grid(options["grid"]), how=options["how"], by=by)
        except runs.RunRefused as refused:
            raise CommandError(str(refused)) from refused
        self.stdout.write("stopping")


def _grid(pk: int) -> Grid:
    grid = Grid.objects.filter(pk=pk).select_related("hardware", "team").first()
    if grid is None:
        raise CommandError(f"There is no grid {pk}.")
    return grid
