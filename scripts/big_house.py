"""A Headroom with 10,000 grids and 1,000,000 requests stored, for `make bench-pages`: made once, in minutes.

    HEADROOM_VAR=var/bench-pages python -m scripts.big_house

One grid has every request as Parquet, one has three length classes and repeats, one runs; the others are copies of small
measured grids under names of their own, each with its cells' summaries, conditions, authorisation and audit event. The
numbers of what the pages are asked for are left in `pages.json`.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import django

from scripts import prepare

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import Model

    from benchmarks.models import Cell, Grid

GRIDS = int(os.environ.get("BENCH_GRIDS") or 10_000)
REQUESTS = int(os.environ.get("BENCH_REQUESTS") or 1_000_000)
IN_A_GO = 500
KEPT_SETTINGS, KEPT_REPEATS, KEPT_REQUESTS = (1, 2, 4, 8), 3, max(REQUESTS // 100, 20)
"""The grid with Parquet: settings, repeats, requests of each cell."""
DECIDED = min(600, GRIDS // 4)
SMALL = {"BENCH_GRIDS": "40", "BENCH_REQUESTS": "6000"}
"""For pictures and tests of the pages: every state once, in seconds."""
NEWCOMER = "newcomer"
SCALE = 0.1  # of the made-up summaries' requests: about a hundred in each small grid
NAMES = ("Night", "Weekend", "After the move", "New driver", "Generator", "Larger cache", "Before the holidays")
PAGES = "pages.json"
Row = TypeVar("Row", bound="Model")


def copied(row: Row, **fields: Any) -> Row:
    """A new row with the same values but these."""
    values = {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if not f.primary_key}
    return type(row)(**(values | fields))


def place(people: dict[str, User]) -> list[Grid]:
    """Hosts, runtimes and workloads, each with a small measured grid to copy."""
    from benchmarks.models import Role, Team
    from tests import factories
    from tests.capacity import stored, synthetic

    team = Team.objects.get(slug="demonstration")
    workload = factories.make_workload(team, name="Short questions", classes={"short": (16, 16)})
    limits = synthetic.limits()
    found = []
    for number in range(1, 7):
        host = factories.make_hardware(team, name=f"Host {number}", place=f"Room {number}")
        kind = "simulator" if number % 2 else "llamacpp"
        runtime = factories.make_runtime(host, name=f"Runtime {number}", kind=kind)
        factories.make_objective(team, name=f"Objective {number}", classes=("short",))
        grid = factories.make_grid(
            runtime, workload, people[Role.OPERATOR], limits=limits, name=f"First on host {number}"
        )
        leave(grid, people)
        found.append(stored.measure(grid, lambda cell: stored.summary_of(cell, scale=SCALE)))
    return found


def leave(grid: Grid, people: dict[str, User]) -> None:
    from django.utils import timezone

    from benchmarks.models import Authorization, Role

    now = timezone.now()
    Authorization.objects.create(
        grid=grid, grid_digest=grid.digest, requested_by=people[Role.OPERATOR], authorized_by=people[Role.HOST_OWNER],
        target=grid.runtime.endpoint, valid_from=now, valid_until=now + timedelta(hours=1), max_concurrency=64,
        max_requests=1_000_000, max_tokens=10**9, max_minutes=600,
    )  # fmt: skip


def rich(people: dict[str, User], runtime: Any) -> Grid:
    """Three length classes, four settings, three repeats."""
    from benchmarks.models import Role
    from tests import factories
    from tests.capacity import stored, synthetic

    objective = factories.make_objective(runtime.team, name="Three classes", classes=tuple(synthetic.LIMITS))
    grid = factories.make_grid(
        runtime, drawn_by=people[Role.OPERATOR], repeats=3, limits=synthetic.limits(), name="Three classes, three repeats",
        objective_digest=objective.digest, objective_set_at=stored.STARTED - timedelta(hours=1),
    )  # fmt: skip
    leave(grid, people)
    return stored.measure(grid)


def kept(people: dict[str, User], runtime: Any, workload: Any) -> Grid:
    """Every request of it is stored, and its summaries were made from them."""
    from benchmarks.engine.columns import from_log
    from benchmarks.engine.summary import summarise
    from benchmarks.models import Evidence, Role
    from benchmarks.records import parquet
    from scripts.big_evidence import write_log
    from tests import factories
    from tests.capacity import stored, synthetic

    grid = factories.make_grid(
        runtime, workload, people[Role.OPERATOR], settings=KEPT_SETTINGS, repeats=KEPT_REPEATS, limits=synthetic.limits(),
        name="Every request is stored",
    )  # fmt: skip
    leave(grid, people)
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for cell in grid.cells.all():
            log = Path(folder) / "log"
            write_log(log, requests=KEPT_REQUESTS, gaps=4, seed=cell.position + 1)
            columns = from_log(log)
            made[cell.pk] = (summarise(columns, columns.plan), parquet.write(columns))
            log.unlink()
    stored.measure(grid, lambda cell: made[cell.pk][0], content=lambda cell: made[cell.pk][1])
    with unguarded():
        Evidence.objects.filter(cell__grid=grid).update(requests=KEPT_REQUESTS)
    return grid


@contextlib.contextmanager
def unguarded() -> Iterator[None]:
    """Triggers keep evidence as it was written; here its count is written a second time."""
    from benchmarks import triggers

    triggers.take_away()
    try:
        yield
    finally:
        triggers.reinstall()


def copies(of: Sequence[Grid], number: int) -> list[Grid]:
    """So many grids under names of their own, with all that hangs on them."""
    from benchmarks.models import Authorization, Cell, Conditions, Grid

    last = Grid.objects.latest("pk").pk
    turn = itertools.islice(itertools.cycle(of), number)
    rows = (copied(grid, name=f"{NAMES[n % len(NAMES)]} {n + 1}") for n, grid in enumerate(turn))
    grids = Grid.objects.bulk_create(rows, batch_size=IN_A_GO)
    for grid in of:
        hang(Cell, grid, last, all_of_it=True)
        hang(Conditions, grid, last)
        hang(Authorization, grid, last)
    return grids


def hang(model: type[Model], grid: Grid, after: int, *, all_of_it: bool = False) -> None:
    """What hangs on one grid, hung on each copy of it too; inside the database, where no value is read and written anew."""
    from django.db import connection

    from benchmarks.models import Grid

    columns = [f.column for f in model._meta.concrete_fields if not f.primary_key and f.column != "grid_id"]
    names, theirs = ", ".join(f'"{c}"' for c in columns), ", ".join(f's."{c}"' for c in columns)
    table, grids = model._meta.db_table, Grid._meta.db_table
    one = "" if all_of_it else f" AND s.id = (SELECT MIN(id) FROM {table} WHERE grid_id = s.grid_id)"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (grid_id, {names}) SELECT g.id, {theirs} FROM {grids} g JOIN {table} s ON s.grid_id = %s{one} "
            "WHERE g.id > %s AND g.runtime_id = %s ORDER BY g.id, s.id",
            [grid.pk, after, grid.runtime_id],
        )


def evidence(grids: Sequence[Grid], requests: int) -> None:
    """So many requests, spread over the cells of these grids; of their evidence the count is kept, not a file."""
    from benchmarks.models import Cell, Evidence

    cells = Cell.objects.filter(grid_id__gte=grids[0].pk, grid_id__lte=grids[-1].pk).order_by("pk")
    keys = list(cells.values_list("pk", flat=True))
    share, more = divmod(requests, len(keys))
    Evidence.objects.bulk_create(
        (
            Evidence(
                cell_id=key,
                attempt=1,
                schema_version=1,
                sha256=f"{key:064x}",
                size_bytes=10,
                requests=share + (n < more),
            )
            for n, key in enumerate(keys)
        ),
        batch_size=IN_A_GO,
    )


def events(grids: Sequence[Grid], actor: str) -> list[Any]:
    """One for each grid, chained to the last that there is."""
    from django.utils import timezone

    from benchmarks import audit
    from benchmarks.models import Event

    last = Event.objects.order_by("-sequence").first()
    assert last is not None
    sequence, before, made = last.sequence, last.hash, []
    for grid in grids:
        sequence += 1
        event = Event(
            sequence=sequence, at=timezone.now(), team_id=grid.team_id, actor=actor, verb="drew", subject=f"grid {grid.pk}",
            before_digest="", after_digest=grid.digest, changes={}, reason=grid.reason, previous_hash=before,
        )  # fmt: skip
        event.hash = before = audit.hash_of(event)
        made.append(event)
    return made


def decided(grid: Grid, others: Sequence[Grid], people: dict[str, User]) -> tuple[int, str]:
    """One proposed, approved and signed as people do it; copies of it beside, a third in each state."""
    from benchmarks.models import Role
    from capacity import approvals
    from capacity.models import Choice

    choice = approvals.propose(grid=grid, setting=4, reason="Inside every limit.", by=people[Role.OPERATOR])
    approvals.decide(choice=choice, by=people[Role.APPROVER], approve=True, reason="Read.")
    choice.refresh_from_db()
    statement = approvals.issue_statement(
        choice=choice, by=people[Role.SIGNER], title=approvals.title_for(choice), valid_days=90
    )
    undecided = {"status": "proposed", "decided_by_id": None, "decided_at": None, "decision_reason": ""}
    made = Choice.objects.bulk_create(copied(choice, grid_id=other.pk, **undecided) for other in others)
    for place, status in enumerate(("approved", "rejected")):
        Choice.objects.filter(pk__in=[one.pk for one in made[place::3]]).update(
            status=status, decided_by=choice.decided_by, decided_at=choice.decided_at, decision_reason="Read."
        )
    leaves = {other.pk: (other.authorizations.first(), other.conditions.first()) for other in others[::3]}
    for number, one in enumerate(made[::3], 1):
        given, before = leaves[one.grid_id]
        copied(
            statement,
            number=f"HR-2025-{number:04d}",
            choice_id=one.pk,
            authorization_id=given.pk,
            conditions_id=before.pk,
        ).save(force_insert=True)
    return choice.pk, statement.number


def running(people: dict[str, User], runtime: Any) -> Grid:
    """One cell of it is claimed, by a worker that is not there."""
    from django.utils import timezone

    from benchmarks import claims, runs
    from benchmarks.models import Role
    from tests import factories

    grid = factories.make_grid(runtime, drawn_by=people[Role.OPERATOR], name="Runs now")
    now = timezone.now()
    runs.authorize(
        grid=grid, by=people[Role.HOST_OWNER], valid_from=now, valid_until=now + timedelta(days=1),
        ceilings=runs.Ceilings(max_concurrency=8, max_requests=100_000, max_tokens=10_000_000, max_minutes=600),
    )  # fmt: skip
    claims.claim_next_cell(hardware_slugs=[runtime.hardware.slug], worker="bench|1|1|1")
    return grid


def states(people: dict[str, User], runtime: Any) -> dict[str, int]:
    """A grid in each state that is neither measured nor running, by the name of the state."""
    from django.utils import timezone

    from benchmarks import runs
    from benchmarks.models import Grid, Role
    from tests import factories
    from tests.capacity import stored, synthetic

    found = {}
    for state in ("draft", "paused", "stopped", "failing"):
        grid = factories.make_grid(
            runtime, drawn_by=people[Role.OPERATOR], name=f"This one is {state}", limits=synthetic.limits()
        )
        found[state] = grid.pk
        if state == "draft":
            continue
        now = timezone.now()
        runs.authorize(
            grid=grid, by=people[Role.HOST_OWNER], valid_from=now, valid_until=now + timedelta(days=1),
            ceilings=runs.Ceilings(max_concurrency=8, max_requests=100_000, max_tokens=10_000_000, max_minutes=600),
        )  # fmt: skip
        grid.refresh_from_db()
        if state == "failing":
            stored.measure(grid, lambda cell: stored.summary_of(cell, failed=30))
        else:
            stored.measure(grid, settings=[1, 2])
        if state == "paused":
            runs.pause(grid=grid, by=people[Role.OPERATOR])
        elif state == "stopped":
            words = "GPU temperature 91 °C, over 85 °C"
            grid.cells.exclude(status="measured").update(status="not_run", reason=words)
            Grid.objects.filter(pk=grid.pk).update(status="stopped", stop_reason=words)
    return found


def newcomer(home: Path) -> None:
    """A person in a team that has nothing yet, with a password beside those of the demonstration."""
    from benchmarks.models import Role
    from capacity.management.accounts import read_passwords, write_passwords
    from tests import factories

    path = home / "demo-accounts.txt"
    passwords = read_passwords(path)
    passwords[NEWCOMER] = secrets.token_urlsafe(12)
    team = factories.make_team("Newcomers")
    factories.make_user(team, *(role for role in Role), username=NEWCOMER, password=passwords[NEWCOMER])
    write_passwords(path, passwords)


def timed(what: str, step: Callable[[], Any]) -> Any:
    began = time.monotonic()
    found = step()
    print(f"  {what}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def scheduled() -> None:
    from benchmarks import grid_figures
    from benchmarks.tasks import count_rows

    while grid_figures.keep():
        pass
    count_rows()


def fill(home: Path) -> None:
    from django.contrib.auth.models import User
    from django.db import transaction
    from django.db.models import Sum

    from benchmarks.models import Evidence, Grid, Role

    people = {role: User.objects.get(username=role.value.replace("_", "-")) for role in Role}
    small = timed("hosts, runtimes and small grids", lambda: place(people))
    host = small[0].runtime
    with_evidence = timed("a grid with every request", lambda: kept(people, host, small[0].workload))
    classes = timed("a grid of three classes", lambda: rich(people, host))
    now = timed("a running grid", lambda: running(people, small[1].runtime))
    more = timed("a grid in each other state", lambda: states(people, small[2].runtime))
    newcomer(home)
    left = GRIDS - Grid.objects.count()
    there = Evidence.objects.aggregate(n=Sum("requests"))["n"]

    def write() -> list[Grid]:
        with transaction.atomic():
            grids = copies(small, left)
            evidence(grids, REQUESTS - there)
            of_all = events(grids, people[Role.OPERATOR].username)
            type(of_all[0])._default_manager.bulk_create(of_all, batch_size=IN_A_GO)
        return grids

    grids = timed(f"{left:,} more grids", write)
    choice, statement = timed("decisions", lambda: decided(classes, grids[:DECIDED], people))
    timed("what the scheduler does", scheduled)
    cells: Any = Grid.objects.get(pk=with_evidence.pk).cells
    first: Cell = cells.first()
    pages = {
        "kept": with_evidence.pk, "cell": first.pk, "rich": classes.pk, "running": now.pk, "small": grids[-1].pk,
        "other": grids[-7].pk, **more, "choice": choice, "statement": statement,
        "grids": Grid.objects.count(), "requests": Evidence.objects.aggregate(n=Sum("requests"))["n"],
        "parquet": KEPT_REQUESTS * len(KEPT_SETTINGS) * KEPT_REPEATS,
    }  # fmt: skip
    (home / PAGES).write_text(json.dumps(pages))


def main() -> int:
    home = Path(os.environ["HEADROOM_VAR"])
    home.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")
    django.setup()
    said, sys.stdout = sys.stdout, io.StringIO()  # passwords stand in the folder's own file
    try:
        prepare.main()
    finally:
        sys.stdout = said
    fill(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
