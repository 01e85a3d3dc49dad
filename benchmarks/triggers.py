"""Rules that a constraint cannot say, as database triggers on SQLite and PostgreSQL.

They belong to the database, not to one app: tables of the judging side are named here as data, and skipped where
they do not exist. SQLite's table rebuild drops triggers silently, so they are installed again after each migration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

APP = "benchmarks"


@dataclass(frozen=True, slots=True)
class Rule:
    """Refuses `event` on `table` where `when` holds. `when` may name OLD, NEW and other tables; `changes` narrows an
    UPDATE to those that give one of these columns another value."""

    name: str
    table: str
    event: str
    message: str
    when: str = ""
    changes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def trigger(self) -> str:
        return f"headroom_{self.name}"


def _frozen(table: str, what: str) -> list[Rule]:
    return [
        Rule(f"{table}_no_{event.lower()}", table, event, f"{what} never changes: {event} refused")
        for event in ("UPDATE", "DELETE")
    ]


def _used(column: str, row: str) -> str:
    return (
        "EXISTS (SELECT 1 FROM benchmarks_grid g JOIN benchmarks_cell c ON c.grid_id = g.id "
        f"WHERE g.{column} = {row} AND c.status = 'measured')"
    )


_PLAN = (
    "digest", "declared", "hardware_id", "runtime_id", "workload_id", "setting_values", "class_names", "repeats", "window_s",
    "warmup_s", "limits", "objective_digest", "objective_set_at", "simulated", "mode", "load", "calibration",
    "managed", "probes", "on_guard", "baseline",
)  # fmt: skip
_RUNTIME = (
    "slug", "version", "digest", "hardware_id", "kind", "runtime_version", "endpoint", "model_name", "model_digest", "flags",
    "dialect", "batching_mode", "max_active_sequences", "context_per_sequence_tokens", "metrics_url", "gpu_metrics_url",
    "launch_profile", "geometry", "geometry_source",
)  # fmt: skip
_WORKLOAD = (
    "slug", "version", "digest", "seed", "task", "shared_prefix_share", "turns", "think_s", "arrivals_s",
)  # fmt: skip
_LEAVE = (
    "grid_id", "grid_digest", "requested_by_id", "authorized_by_id", "authorized_at", "target", "valid_from", "valid_until",
    "max_concurrency", "max_requests", "max_tokens", "max_minutes", "max_temperature_c", "max_power_w", "signature", "signed_by",
)  # fmt: skip
_PROPOSAL = (
    "grid_id", "objective_id", "setting", "rollback_setting", "verdict", "grade", "digest", "reason", "measured_by_id",
    "proposed_by_id", "proposed_at",
)  # fmt: skip
_DECISION = ("decided_by_id", "decided_at", "decision_reason")
_STEPS = (
    "(OLD.status = 'proposed' AND NEW.status IN ('approved', 'rejected', 'withdrawn')) "
    "OR (OLD.status = 'approved' AND NEW.status = 'withdrawn')"
)
"""The steps that a choice may take; one that a statement rests on takes none."""
_MEASURED = ("benchmarks_grid", "benchmarks_cell")

RULES: tuple[Rule, ...] = (
    *_frozen("benchmarks_event", "an audit event"),
    *_frozen("benchmarks_evidence", "evidence"),
    *_frozen("benchmarks_evidencechunk", "evidence"),
    *_frozen("benchmarks_supersededevidence", "evidence"),
    *_frozen("benchmarks_hardwareprobe", "what a worker read of its host"),
    *_frozen("benchmarks_conditions", "recorded conditions"),
    *_frozen("capacity_statement", "an issued statement"),
    Rule("measured_cell", "benchmarks_cell", "UPDATE", "a measured cell never changes", when="OLD.status = 'measured'"),
    Rule("cell_no_delete", "benchmarks_cell", "DELETE", "cells are never deleted"),
    Rule(
        "attempt_leave", "benchmarks_attempt", "UPDATE", "the authorisation of an attempt never changes",
        changes=("cell_id", "number", "authorization_id", "worker", "started_at"),
    ),
    Rule(
        "attempt_leave_of_grid", "benchmarks_attempt", "INSERT", "an attempt runs under an authorisation of its own grid",
        when="NOT EXISTS (SELECT 1 FROM benchmarks_cell c JOIN benchmarks_authorization a ON a.grid_id = c.grid_id "
        "WHERE c.id = NEW.cell_id AND a.id = NEW.authorization_id)",
        needs=("benchmarks_cell", "benchmarks_authorization"),
    ),
    Rule("attempt_no_delete", "benchmarks_attempt", "DELETE", "attempts are never deleted"),
    Rule(
        "grid_drawer", "benchmarks_grid", "UPDATE", "who drew a grid never changes", changes=("drawn_by_id", "drawn_at")
    ),
    Rule(
        "grid_confirms", "benchmarks_grid", "UPDATE", "what a grid confirms never changes",
        changes=("confirms_id", "confirms_setting", "confirms_queue_cap"),
    ),
    Rule(
        "grid_probe", "benchmarks_grid", "UPDATE", "what a worker read before the first cell never changes",
        changes=("probe_id",), when="OLD.probe_id IS NOT NULL",
    ),
    Rule(
        "grid_start", "benchmarks_grid", "UPDATE", "when a grid started never changes",
        changes=("started_at",), when="OLD.started_at IS NOT NULL",
    ),
    Rule(
        "measured_plan", "benchmarks_grid", "UPDATE", "the plan of a measured grid never changes",
        changes=_PLAN, when="EXISTS (SELECT 1 FROM benchmarks_cell c WHERE c.grid_id = OLD.id AND c.status = 'measured')",
        needs=_MEASURED,
    ),
    Rule(
        "leave_is_bound", "benchmarks_authorization", "INSERT",
        "an authorisation is requested by who drew the grid and bound to its digest",
        when="NOT EXISTS (SELECT 1 FROM benchmarks_grid g WHERE g.id = NEW.grid_id "
        "AND g.drawn_by_id = NEW.requested_by_id AND g.digest = NEW.grid_digest)",
        needs=("benchmarks_grid",),
    ),
    Rule("leave_kept", "benchmarks_authorization", "UPDATE", "an authorisation can only be revoked", changes=_LEAVE),
    Rule(
        "leave_revoked_once", "benchmarks_authorization", "UPDATE", "a revoked authorisation stays revoked",
        changes=("revoked_at", "revoked_by_id"), when="OLD.revoked_at IS NOT NULL",
    ),
    Rule(
        "worker_key_kept", "benchmarks_workerkey", "UPDATE", "an enrolment is used once, and revoked once",
        changes=("hardware_id", "token_sha256", "created_by_id", "created_at", "expires_at"),
    ),
    Rule(
        "worker_key_used_once", "benchmarks_workerkey", "UPDATE", "a used enrolment never changes its key",
        changes=("used_at", "worker", "public_key"), when="OLD.used_at IS NOT NULL",
    ),
    Rule(
        "worker_key_revoked_once", "benchmarks_workerkey", "UPDATE", "a revoked worker key stays revoked",
        changes=("revoked_at", "revoked_by_id"), when="OLD.revoked_at IS NOT NULL",
    ),
    Rule("worker_key_no_delete", "benchmarks_workerkey", "DELETE", "enrolments are never deleted"),
    Rule("leave_no_delete", "benchmarks_authorization", "DELETE", "authorisations are never deleted"),
    Rule(
        "choice_measurer", "capacity_choice", "INSERT", "a choice names who drew its grid as measurer",
        when="NOT EXISTS (SELECT 1 FROM benchmarks_grid g WHERE g.id = NEW.grid_id AND g.drawn_by_id = NEW.measured_by_id)",
        needs=("benchmarks_grid",),
    ),
    Rule(
        "choice_begins", "capacity_choice", "INSERT", "a choice begins as a proposal that nobody has decided about",
        when="NEW.status <> 'proposed' OR NEW.decided_by_id IS NOT NULL OR NEW.decided_at IS NOT NULL",
    ),
    Rule("choice_kept", "capacity_choice", "UPDATE", "what was proposed never changes", changes=_PROPOSAL),
    Rule(
        "choice_decided_once", "capacity_choice", "UPDATE", "a decision never changes",
        changes=_DECISION, when="OLD.status <> 'proposed'",
    ),
    Rule(
        "choice_steps", "capacity_choice", "UPDATE", "a choice does not take this step",
        changes=("status",), when=f"NOT ({_STEPS})",
    ),
    Rule(
        "choice_stated", "capacity_choice", "UPDATE", "a choice that a statement rests on stays approved",
        changes=("status",), when="EXISTS (SELECT 1 FROM capacity_statement s WHERE s.choice_id = OLD.id)",
        needs=("capacity_statement",),
    ),
    Rule("choice_no_delete", "capacity_choice", "DELETE", "choices are never deleted"),
    Rule(
        "statement_grounds", "capacity_statement", "INSERT",
        "a statement needs an approved choice, and the authorisation and conditions of the same grid",
        when="NOT EXISTS (SELECT 1 FROM capacity_choice k "
        "JOIN benchmarks_authorization a ON a.grid_id = k.grid_id AND a.id = NEW.authorization_id "
        "JOIN benchmarks_conditions m ON m.grid_id = k.grid_id AND m.id = NEW.conditions_id "
        "WHERE k.id = NEW.choice_id AND k.status = 'approved')",
        needs=("capacity_choice", "benchmarks_authorization", "benchmarks_conditions"),
    ),
    Rule(
        "measured_runtime", "benchmarks_runtime", "UPDATE", "a measured runtime never changes: make a new version",
        changes=_RUNTIME, when=_used("runtime_id", "OLD.id"), needs=_MEASURED,
    ),
    Rule(
        "measured_workload", "benchmarks_workload", "UPDATE", "a measured workload never changes: make a new version",
        changes=_WORKLOAD, when=_used("workload_id", "OLD.id"), needs=_MEASURED,
    ),
    *(
        Rule(
            f"measured_class_{event.lower()}", "benchmarks_lengthclass", event,
            "a length class of a measured workload never changes: make a new version",
            when=_used("workload_id", f"{row}.workload_id"), needs=_MEASURED,
        )
        for event, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD"))
    ),
)  # fmt: skip

NO_TRUNCATE = (
    "benchmarks_event", "benchmarks_cell", "benchmarks_attempt", "benchmarks_evidence", "benchmarks_evidencechunk",
    "benchmarks_supersededevidence", "benchmarks_workerkey",
    "benchmarks_authorization", "benchmarks_conditions", "benchmarks_hardwareprobe", "capacity_choice", "capacity_statement",
)  # fmt: skip
"""Row triggers do not see TRUNCATE; on PostgreSQL a statement-level one refuses it."""


def reinstall(*, using: str = DEFAULT_DB_ALIAS, app_config: Any = None, **_signal: object) -> None:
    """Puts every trigger in place; receiver of post_migrate, and callable on its own."""
    if app_config is not None and app_config.name != APP:
        return
    connection = connections[using]
    with connection.cursor() as cursor:
        for statement in _statements(connection):
            cursor.execute(statement)


def remove(*, using: str = DEFAULT_DB_ALIAS, app_config: Any = None, plan: object = (), **_signal: object) -> None:
    """Takes the triggers away before SQLite rebuilds tables: a rename fails while a trigger names the missing table."""
    if connections[using].vendor == "sqlite" and plan and (app_config is None or app_config.name == APP):
        take_away(using=using)


def take_away(*, using: str = DEFAULT_DB_ALIAS) -> None:
    """Takes every trigger away, inside a transaction that ends with `reinstall`."""
    connection = connections[using]
    on_table = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        standing = [(rule.trigger, rule.table) for rule in RULES]
        standing += [(_truncate_name(table), table) for table in NO_TRUNCATE] if on_table else []
        for name, table in standing:
            if table in tables:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}" + (f" ON {table}" if on_table else ""))


def missing(using: str = DEFAULT_DB_ALIAS) -> list[str]:
    """Names of triggers that should stand in this database and do not; empty when all is well or no table exists yet."""
    connection = connections[using]
    listing = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')",
    }.get(connection.vendor)
    if listing is None:
        return []
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
        cursor.execute(listing)
        standing = {row[0] for row in cursor.fetchall()}
    wanted = [rule.trigger for rule in _rules(tables)]
    if connection.vendor == "postgresql":
        wanted += [_truncate_name(table) for table in NO_TRUNCATE if table in tables]
    return [name for name in wanted if name not in standing]


@register(Tags.database)
def check_triggers(
    app_configs: object = None,  # noqa: ARG001  Django passes it by name
    databases: Sequence[str] | None = None,
    **_kwargs: object,
) -> list[CheckMessage]:
    """`check --database default` tells of triggers that a migration or a hand took away."""
    return [
        Warning(
            f"Database {name}: {len(gone)} protecting triggers are missing ({', '.join(gone[:3])} …).",
            hint="Run `manage.py migrate`; it installs them again.",
            id="benchmarks.W001",
        )
        for name in databases or ()
        if (gone := missing(name))
    ]


def _rules(tables: set[str]) -> list[Rule]:
    return [rule for rule in RULES if {rule.table, *rule.needs} <= tables]


def _statements(connection: BaseDatabaseWrapper) -> list[str]:
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    if connection.vendor == "sqlite":
        return [statement for rule in _rules(tables) for statement in _sqlite(rule)]
    if connection.vendor == "postgresql":
        guarded = [table for table in NO_TRUNCATE if table in tables]
        return [s for rule in _rules(tables) for s in _postgresql(rule)] + [s for t in guarded for s in _no_truncate(t)]
    return []


def _condition(rule: Rule, differs: str) -> str:
    """What must hold for a refusal; `differs` is the dialect's word for "is not the same, NULL counted as a value"."""
    changed = " OR ".join(f"OLD.{column} {differs} NEW.{column}" for column in rule.changes)
    parts = [part for part in (changed, rule.when) if part]
    return " AND ".join(f"({part})" for part in parts)


def _sqlite(rule: Rule) -> list[str]:
    condition = _condition(rule, "IS NOT")
    when = f"WHEN {condition} " if condition else ""
    return [
        f"DROP TRIGGER IF EXISTS {rule.trigger}",
        f"CREATE TRIGGER {rule.trigger} BEFORE {rule.event} ON {rule.table} FOR EACH ROW {when}"
        f"BEGIN SELECT RAISE(ABORT, '{rule.message}'); END",
    ]


def _postgresql(rule: Rule) -> list[str]:
    answer = "OLD" if rule.event == "DELETE" else "NEW"
    raising = f"RAISE EXCEPTION '{rule.message}' USING ERRCODE = 'check_violation';"
    condition = _condition(rule, "IS DISTINCT FROM")
    body = f"IF {condition} THEN {raising} END IF; RETURN {answer};" if condition else raising
    return [
        f"CREATE OR REPLACE FUNCTION {rule.trigger}() RETURNS trigger LANGUAGE plpgsql AS $rule$ BEGIN {body} END $rule$",
        f"DROP TRIGGER IF EXISTS {rule.trigger} ON {rule.table}",
        f"CREATE TRIGGER {rule.trigger} BEFORE {rule.event} ON {rule.table} "
        f"FOR EACH ROW EXECUTE FUNCTION {rule.trigger}()",
    ]


def _truncate_name(table: str) -> str:
    return f"headroom_{table}_no_truncate"


def _no_truncate(table: str) -> list[str]:
    name = _truncate_name(table)
    return [
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $rule$ BEGIN "
        f"RAISE EXCEPTION '{table} is never emptied' USING ERRCODE = 'check_violation'; END $rule$",
        f"DROP TRIGGER IF EXISTS {name} ON {table}",
        f"CREATE TRIGGER {name} BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {name}()",
    ]
