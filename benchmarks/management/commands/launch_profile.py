"""`manage.py launch_profile KIND`: a launch profile of this kind of runtime to complete and put into the host's own file."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from benchmarks.runtimes import launch
from benchmarks.runtimes.facts import facts_of


class Command(BaseCommand):
    help = "Prints a launch profile of a kind of runtime, for the host's own file. It starts nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=launch.kinds())

    def handle(self, *_args: object, **options: Any) -> None:
        kind: str = options["kind"]
        line, facts = launch.line_of(kind), facts_of(kind)
        tells = ", ".join(line.reads_back) or "nothing of it"
        self.stdout.write(f"# {facts.name}, as read in version {facts.version_read} ({facts.read_on})")
        self.stdout.write(f"# {{setting}} is {line.setting}")
        self.stdout.write(f"# read back from the running server: {tells}")
        self.stdout.write(launch.example(kind))
