"""`manage.py worker`: one command for a person or a service manager to start the right Celery worker."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from benchmarks.models import Hardware
from benchmarks.tasks import queue_for

HELP = """Starts a worker that measures, sends mail and sweeps.

  manage.py worker --schedule               everything on one machine: all hosts, office work, the schedule
  manage.py worker --hardware lhr-gpu-01    on a GPU host: that host's cells and nothing else
  manage.py worker --office --schedule      beside the web server: office work and the schedule, no load
"""


class Command(BaseCommand):
    help = "Starts a Celery worker with the queues that this machine should serve."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.description = HELP
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--hardware", action="append", default=[], metavar="SLUG", help="serve this host; may be repeated"
        )
        parser.add_argument("--office", action="store_true", help="serve mail, webhooks and sweeps, and load nothing")
        parser.add_argument(
            "--schedule", action="store_true", help="run the scheduler inside; exactly one worker should"
        )
        parser.add_argument("--print", action="store_true", help="print the Celery command and end")

    def handle(self, *, hardware: list[str], office: bool, schedule: bool, **options: Any) -> None:
        command = celery_command(hardware=hardware, office=office, schedule=schedule)
        if options["print"]:
            self.stdout.write(" ".join(command))
            return
        if hardware:
            os.environ["HEADROOM_HARDWARE"] = ",".join(hardware)
        os.execv(command[0], command)


def celery_command(*, hardware: list[str], office: bool, schedule: bool) -> list[str]:
    """The command line. Two slots, so that a sweep runs while the other slot is busy with a cell.

    On the filesystem the slots are threads: processes would share one lock on the queue of their work there, and one that is
    killed while it waits, by a system short of memory for one, takes the lock along and leaves the others deaf.
    """
    pool = [] if settings.BROKER_URL else ["--pool", "threads"]
    default = settings.CELERY_TASK_DEFAULT_QUEUE
    if hardware:
        queues = [queue_for(slug) for slug in hardware] + ([default] if office else [])
    elif office:
        queues = [default]
    else:
        queues = [default, *(queue_for(slug) for slug in Hardware.objects.values_list("slug", flat=True))]
        if queue_for("a") == queue_for("b"):
            queues.append(queue_for("a"))
    name = "-".join(hardware) or ("office" if office else "all")
    return [
        sys.executable, "-m", "celery", "-A", "capacity", "worker", "--loglevel", "info", "--concurrency", "2",
        *pool,
        "--hostname", f"{name}-{os.getpid()}@%h", "--queues", ",".join(dict.fromkeys(queues)), *(["--beat"] if schedule else []),
    ]  # fmt: skip
