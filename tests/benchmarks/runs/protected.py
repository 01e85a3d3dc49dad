"""Rows that the triggers protect, and raw SQL against them: the same claims on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction

from benchmarks import audit, runs
from benchmarks.models import Attempt, Authorization, Cell, Evidence, EvidenceChunk, Grid, HardwareProbe
from capacity.models import Choice, Key, Statement
from tests import factories

NOON = datetime(2026, 11, 14, 12, 0, tzinfo=UTC)
LATE = datetime(2099, 1, 1, tzinfo=UTC)


@dataclass
class World:
    """A grid with one measured cell, an authorisation, an approved choice and a statement, beside an untouched draft
    with a choice that nobody decided about, and an approved choice that no setting is safe, which nobody stated."""

    grid: Grid
    measured: Cell
    waiting: Cell
    leave: Authorization
    choice: Choice
    statement: Statement
    draft: Grid
    proposed: Choice
    unstated: Choice


def authorized(grid: Grid) -> Authorization:
    owner = factories.make_user(grid.team, "host_owner")
    return runs.authorize(
        grid=grid, by=owner, valid_from=NOON, valid_until=LATE,
        ceilings=runs.Ceilings(max_concurrency=8, max_requests=1_000_000, max_tokens=100_000_000, max_minutes=60),
    )  # fmt: skip


def make_world() -> World:
    grid = factories.make_grid(settings=(1,), class_names=("short", "median"))
    leave = authorized(grid)
    measured, waiting = grid.cells.order_by("position")
    Attempt.objects.create(cell=measured, number=1, authorization=leave, worker="w", started_at=NOON)
    probe = HardwareProbe.objects.create(hardware=grid.hardware, at=NOON, worker="w", facts={}, digest="p" * 64)
    Grid.objects.filter(pk=grid.pk).update(probe=probe, started_at=NOON)
    evidence = Evidence.objects.create(
        cell=measured, attempt=1, schema_version=1, sha256=hashlib.sha256(b"x").hexdigest(), size_bytes=1, requests=1
    )
    EvidenceChunk.objects.create(evidence=evidence, number=0, content=b"x")
    Cell.objects.filter(pk=measured.pk).update(status="measured", summary={"schema": 1}, attempt=1)
    audit.record(actor="somebody", verb="did", subject="something")
    proposer, approver = factories.make_user(grid.team, "operator"), factories.make_user(grid.team, "approver")
    choice = make_choice(grid, proposer)
    decided(choice, approver)
    draft = factories.make_grid(settings=(1,), class_names=("short",))
    proposed = make_choice(draft, proposer)
    other = factories.make_grid(settings=(1,), class_names=("short",))
    unstated = make_choice(other, proposer, setting=None, grade="no safe setting found")
    decided(unstated, approver)
    return World(grid, measured, waiting, leave, choice, make_statement(choice, leave), draft, proposed, unstated)


def make_choice(grid: Grid, proposer: User, **fields: object) -> Choice:
    chosen = {
        "grid": grid, "objective": factories.make_objective(grid.team), "setting": 1, "verdict": {}, "digest": "d" * 64,
        "reason": "r", "measured_by": grid.drawn_by, "proposed_by": proposer,
    } | fields  # fmt: skip
    return Choice.objects.create(**chosen)


def decided(choice: Choice, approver: User) -> None:
    Choice.objects.filter(pk=choice.pk).update(status="approved", decided_by=approver, decided_at=NOON)
    choice.refresh_from_db()


def make_statement(choice: Choice, leave: Authorization, number: str = "CS-2026-001", **fields: object) -> Statement:
    key, _ = Key.objects.get_or_create(keyid="k" * 64, defaults={"name": "Demonstration", "demonstration": True})
    chosen = {
        "number": number, "choice": choice, "authorization": leave, "conditions": choice.grid.conditions.get(), "key": key,
        "demonstration": True, "simulated": True, "envelope": b"{}", "pdf": b"%PDF", "digest": "e" * 64,
        "issued_by": choice.decided_by, "issued_at": NOON, "valid_until": LATE,
    } | fields  # fmt: skip
    return Statement.objects.create(**chosen)


def refusal(sql: str, *values: object) -> str | None:
    """The words of the database when it refuses; None when it lets the statement through (and then undoes it)."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql, values)
            transaction.set_rollback(True)
    except DatabaseError as error:
        return str(error).splitlines()[0]
    return None


STATEMENTS: list[tuple[str, str, str | None]] = [
    ("an event is changed", "UPDATE benchmarks_event SET actor = 'x'", "an audit event never changes"),
    ("an event is deleted", "DELETE FROM benchmarks_event", "an audit event never changes"),
    (
        "a measured cell is changed",
        "UPDATE benchmarks_cell SET reason = 'x' WHERE id = {measured}",
        "a measured cell never changes",
    ),
    (
        "a measured cell is queued again",
        "UPDATE benchmarks_cell SET status = 'queued' WHERE id = {measured}",
        "a measured cell",
    ),
    ("a waiting cell is changed", "UPDATE benchmarks_cell SET reason = 'x' WHERE id = {waiting}", None),
    ("a waiting cell is deleted", "DELETE FROM benchmarks_cell WHERE id = {waiting}", "cells are never deleted"),
    ("an attempt is deleted", "DELETE FROM benchmarks_attempt", "attempts are never deleted"),
    ("an attempt changes its leave", "UPDATE benchmarks_attempt SET authorization_id = 0", "the authorisation of an attempt"),
    (
        "an attempt runs under the leave of another grid",
        "INSERT INTO benchmarks_attempt (cell_id, number, authorization_id, worker, started_at, outcome, reason, conditions) "
        "VALUES ({foreign}, 1, {leave}, 'w', '2026-11-14', '', '', '{{}}')",
        "an authorisation of its own grid",
    ),
    (
        "an attempt runs under the leave of its grid",
        "INSERT INTO benchmarks_attempt (cell_id, number, authorization_id, worker, started_at, outcome, reason, conditions) "
        "VALUES ({waiting}, 1, {leave}, 'w', '2026-11-14', '', '', '{{}}')",
        None,
    ),
    ("an attempt ends", "UPDATE benchmarks_attempt SET outcome = 'measured'", None),
    ("evidence is changed", "UPDATE benchmarks_evidence SET sha256 = 'x'", "evidence never changes"),
    ("evidence is deleted", "DELETE FROM benchmarks_evidence", "evidence never changes"),
    ("a chunk is changed", "UPDATE benchmarks_evidencechunk SET number = 7", "evidence never changes"),
    ("a chunk is deleted", "DELETE FROM benchmarks_evidencechunk", "evidence never changes"),
    ("a statement is changed", "UPDATE capacity_statement SET digest = 'x'", "an issued statement never changes"),
    ("a statement is deleted", "DELETE FROM capacity_statement", "an issued statement never changes"),
    ("a ceiling is raised", "UPDATE benchmarks_authorization SET max_requests = 99999999", "can only be revoked"),
    ("a window is widened", "UPDATE benchmarks_authorization SET valid_until = '2199-01-01'", "can only be revoked"),
    ("an authorisation is deleted", "DELETE FROM benchmarks_authorization", "authorisations are never deleted"),
    ("an authorisation is revoked", "UPDATE benchmarks_authorization SET revoked_at = '2026-11-14'", None),
    (
        "a grid changes its drawer",
        "UPDATE benchmarks_grid SET drawn_by_id = {other} WHERE id = {draft}",
        "who drew a grid",
    ),
    *(
        (f"a draft changes {column}", f"UPDATE benchmarks_grid SET {column} = {value} WHERE id = {{draft}}", "a grid confirms")
        for column, value in (("confirms_id", "{grid}"), ("confirms_setting", "4"), ("confirms_queue_cap", "8"))
    ),
    (
        "a measured grid changes its digest",
        "UPDATE benchmarks_grid SET digest = 'x' WHERE id = {grid}",
        "the plan of a measured grid",
    ),
    (
        "a measured grid stops being simulated",
        "UPDATE benchmarks_grid SET simulated = NOT simulated WHERE id = {grid}",
        "the plan of a measured",
    ),
    ("a measured grid is stopped", "UPDATE benchmarks_grid SET status = 'stopped' WHERE id = {grid}", None),
    ("a draft changes its digest", "UPDATE benchmarks_grid SET digest = 'x' WHERE id = {draft}", None),
    (
        "a measured runtime changes its flags",
        "UPDATE benchmarks_runtime SET flags = 'x' WHERE id = {runtime}",
        "a measured runtime",
    ),
    ("a measured runtime gets notes", "UPDATE benchmarks_runtime SET notes = 'x' WHERE id = {runtime}", None),
    (
        "an unmeasured runtime changes its flags",
        "UPDATE benchmarks_runtime SET flags = 'x' WHERE id = {unmeasured}",
        None,
    ),
    (
        "a measured workload changes its seed",
        "UPDATE benchmarks_workload SET seed = 8 WHERE id = {workload}",
        "a measured workload",
    ),
    *(
        (
            f"a measured workload changes its {column}",
            f"UPDATE benchmarks_workload SET {column} = {value} WHERE id = {{workload}}",
            "a measured workload",
        )
        for column, value in (
            ("turns", "3"),
            ("think_s", "1.5"),
            ("shared_prefix_share", "0.5"),
            ("arrivals_s", "'[0.0, 1.0]'"),
        )
    ),
    ("a measured workload gets notes", "UPDATE benchmarks_workload SET notes = 'x' WHERE id = {workload}", None),
    (
        "pairs of a class of a measured workload change",
        "UPDATE benchmarks_lengthclass SET pairs = '[[5, 6]]' WHERE workload_id = {workload}",
        "a length class",
    ),
    (
        "a class of a measured workload changes",
        "UPDATE benchmarks_lengthclass SET weight = 9 WHERE workload_id = {workload}",
        "a length class",
    ),
    (
        "a class of a measured workload is deleted",
        "DELETE FROM benchmarks_lengthclass WHERE workload_id = {workload}",
        "a length class",
    ),
    (
        "a measured grid changes what is declared",
        "UPDATE benchmarks_grid SET declared = '{{}}' WHERE id = {grid}",
        "the plan of a measured grid",
    ),
    ("a draft changes what is declared", "UPDATE benchmarks_grid SET declared = '{{}}' WHERE id = {draft}", None),
    (
        "a measured grid changes its mode",
        "UPDATE benchmarks_grid SET mode = 'open' WHERE id = {grid}",
        "the plan of a measured grid",
    ),
    (
        "a measured grid changes the terms of its mode",
        "UPDATE benchmarks_grid SET load = '[1]' WHERE id = {grid}",
        "the plan of a measured grid",
    ),
    (
        "a measured grid changes its calibration",
        "UPDATE benchmarks_grid SET calibration = '[1]' WHERE id = {grid}",
        "the plan of a measured grid",
    ),
    ("a draft is calibrated", "UPDATE benchmarks_grid SET calibration = '[1]' WHERE id = {draft}", None),
    ("a search keeps its answer", "UPDATE benchmarks_grid SET answer = '[1]' WHERE id = {grid}", None),
    (
        "a measured runtime changes its dialect",
        "UPDATE benchmarks_runtime SET dialect = 'openai_completions' WHERE id = {runtime}",
        "a measured runtime never changes",
    ),
    ("a grid changes its probe", "UPDATE benchmarks_grid SET probe_id = NULL WHERE id = {grid}", "before the first cell"),
    ("a grid changes its start", "UPDATE benchmarks_grid SET started_at = '2020-01-01' WHERE id = {grid}", "when a grid started"),
    ("a draft starts", "UPDATE benchmarks_grid SET started_at = '2020-01-01' WHERE id = {draft}", None),
    ("a probe is changed", "UPDATE benchmarks_hardwareprobe SET worker = 'x'", "what a worker read of its host"),
    ("a probe is deleted", "DELETE FROM benchmarks_hardwareprobe", "what a worker read of its host"),
    ("conditions are changed", "UPDATE benchmarks_conditions SET room = 'x' WHERE grid_id = {draft}", "recorded conditions"),
    ("conditions are deleted", "DELETE FROM benchmarks_conditions WHERE grid_id = {draft}", "recorded conditions"),
    *(
        (f"a {state} choice changes its {column}", f"UPDATE capacity_choice SET {column} = {value} WHERE id = {{{state}}}", words)
        for state in ("proposed", "unstated", "stated")
        for column, value, words in (
            ("measured_by_id", "{other}", "what was proposed never changes"),
            ("setting", "8", "what was proposed never changes"),
            ("rollback_setting", "8", "what was proposed never changes"),
            ("digest", "'x'", "what was proposed never changes"),
            ("grade", "'complete'", "what was proposed never changes"),
            ("verdict", "'[]'", "what was proposed never changes"),
            ("decision_reason", "'x'", None if state == "proposed" else "a decision never changes"),
        )
    ),
    ("a decider is exchanged", "UPDATE capacity_choice SET decided_by_id = {drawer} WHERE id = {unstated}", "a decision never"),
    ("an approval becomes a rejection", "UPDATE capacity_choice SET status = 'rejected' WHERE id = {unstated}", "this step"),
    ("an approval becomes a proposal", "UPDATE capacity_choice SET status = 'proposed' WHERE id = {unstated}", "this step"),
    ("an approval is withdrawn", "UPDATE capacity_choice SET status = 'withdrawn' WHERE id = {unstated}", None),
    ("a stated approval is withdrawn", "UPDATE capacity_choice SET status = 'withdrawn' WHERE id = {stated}", "stays approved"),
    ("a proposal is withdrawn", "UPDATE capacity_choice SET status = 'withdrawn' WHERE id = {proposed}", None),
    ("a choice is deleted", "DELETE FROM capacity_choice WHERE id = {proposed}", "choices are never deleted"),
]  # fmt: skip
"""What is tried, the SQL, and the words of the refusal; None where it must be let through."""


def filled(sql: str, world: World) -> str:
    return sql.format(
        measured=world.measured.pk, waiting=world.waiting.pk, grid=world.grid.pk, draft=world.draft.pk,
        runtime=world.grid.runtime_id, unmeasured=world.draft.runtime_id, workload=world.grid.workload_id,
        other=world.choice.decided_by_id, leave=world.leave.pk,
        foreign=world.draft.cells.get().pk, proposed=world.proposed.pk, unstated=world.unstated.pk,
        stated=world.choice.pk, drawer=world.draft.drawn_by_id,
    )  # fmt: skip
