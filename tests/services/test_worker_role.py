"""The database role of a worker: what it may not write, tried with SQL as that role, and a whole grid run with it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.benchmarks.runs.installation import DRAW, PROOF, ROOT, Installation, wait_for

pytestmark = [pytest.mark.service, pytest.mark.slow]

GIVEN = ROOT / "deploy" / "worker-role.sql"


@pytest.fixture
def web(tmp_path: Path, postgres: str, broker: str) -> Iterator[Installation]:
    """The server's side, which owns the tables, in a folder that no worker sees."""
    folder = tmp_path / "web"
    folder.mkdir()
    made = Installation(folder, DATABASE_URL=postgres, BROKER_URL=broker)
    made.migrate()
    yield made
    made.close()


@pytest.fixture
def role(postgres: str, web: Installation) -> Iterator[str]:
    """The role as deploy/worker-role.sql makes it, under a name of its own; its address. Run twice, as after an update."""
    name = f"headroom_worker_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as owner:
        for _ in range(2):
            owner.execute(GIVEN.read_text().replace("headroom_worker", name).encode())
        parts = urlsplit(postgres)
        yield urlunsplit(parts._replace(netloc=f"{name}@{parts.hostname}:{parts.port}"))
        owner.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def refusal(connection: psycopg.Connection[tuple[object, ...]], statement: sql.Composable) -> str:
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        return str(error).splitlines()[0]
    except psycopg.Error as error:
        return f"allowed, and then: {error}"
    return "allowed"


WRITES = (
    "INSERT INTO {table} DEFAULT VALUES", "UPDATE {table} SET {column} = {column}", "DELETE FROM {table}", "TRUNCATE {table}",
)  # fmt: skip


def tables_with_columns(address: str) -> dict[str, list[str]]:
    with psycopg.connect(address) as owner:
        rows = owner.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
        ).fetchall()
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(column)
    return found


def writes_refused(connection, table: str, columns: list[str]) -> list[str]:
    """The writes to a table that are let through, each column tried; empty when all are refused."""
    through = []
    for wanted in WRITES:
        for column in columns if "column" in wanted else columns[:1]:
            statement = sql.SQL(wanted).format(table=sql.Identifier(table), column=sql.Identifier(column))
            if not refusal(connection, statement).startswith("permission denied"):
                through.append(f"{wanted.split(' ')[0]} {table}.{column}")
    return through


def test_the_role_writes_nothing_that_judges_authorises_or_names_people(postgres: str, role: str) -> None:
    tables = tables_with_columns(postgres)
    judging = [table for table in tables if table.startswith("capacity_")]
    assert len(judging) >= 5
    with psycopg.connect(role, autocommit=True) as worker:
        for table in judging:
            assert writes_refused(worker, table, tables[table]) == []
            assert refusal(worker, sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).startswith(
                "permission denied"
            )
        others = [table for table in tables if table.startswith(("auth_", "django_"))]
        others += [
            "benchmarks_authorization", "benchmarks_workerkey", "benchmarks_runtime", "benchmarks_workload",
            "benchmarks_lengthclass", "benchmarks_team", "benchmarks_membership", "benchmarks_conditions",
        ]  # fmt: skip
        for table in others:
            assert writes_refused(worker, table, tables[table]) == []
        assert refusal(worker, sql.SQL("SELECT password FROM auth_user")).startswith("permission denied")
        assert refusal(worker, sql.SQL("CREATE TABLE mine ()")).startswith("permission denied")


MAY_UPDATE = {
    "benchmarks_grid": {
        "status", "stop_requested", "stop_reason", "started_at", "finished_at", "progress_version", "probe_id", "calibration",
        "baseline", "answer", "paused_at", "paused_by",
    },
    "benchmarks_cell": {
        "status", "attempt", "claimed_by", "heartbeat_at", "started_at", "finished_at", "reason", "progress", "summary",
        "verdict",
    },
    "benchmarks_attempt": {"ended_at", "outcome", "reason", "conditions"},
    "benchmarks_hardware": {"worker_seen_at", "worker_name", "offers"},
    "benchmarks_endpointcheck": {"status", "result", "finished_at"},
    "benchmarks_event": {"reason"},
}  # fmt: skip


def test_of_what_it_moves_on_the_role_writes_only_these_columns(postgres: str, role: str) -> None:
    tables = tables_with_columns(postgres)
    with psycopg.connect(role, autocommit=True) as worker:
        allowed = {
            table: {
                column for column in columns
                if refusal(worker, sql.SQL("UPDATE {0} SET {1} = {1} WHERE false").format(
                    sql.Identifier(table), sql.Identifier(column))) == "allowed"
            }
            for table, columns in tables.items()
        }  # fmt: skip
    assert {table: columns for table, columns in allowed.items() if columns} == MAY_UPDATE


ENROLMENT = """
from benchmarks import enrolling
from benchmarks.models import Hardware
from tests import factories
host = Hardware.objects.get(slug={host!r})
answer = enrolling.make_key(hardware=host, by=factories.make_user(host.team, "host_owner"))[1]
"""

SIGNED = """
from benchmarks import enrolling, signing
from benchmarks.models import Event, Evidence
kept = Evidence.objects.select_related("key", "cell__grid").filter(cell__grid_id={grid})
answer = {{"signed": [signing.evidence_is_signed(one) for one in kept], "keys": sorted({{str(one.key) for one in kept}}),
    "enrolled": list(Event.objects.filter(verb="enrolled").values_list("changes__key", flat=True))}}
"""


def test_a_worker_elsewhere_with_this_role_enrols_and_runs_a_whole_grid(web, role, broker, tmp_path) -> None:
    endpoint = web.start_simulator()
    drawn = web.script(DRAW.format(endpoint=endpoint, settings=(1, 2), window_s=1.5))
    folder = tmp_path / "gpu"
    folder.mkdir()
    (folder / "worker.toml").write_text(f'targets = ["{endpoint}"]\n')
    gpu = Installation(
        folder, DATABASE_URL=role, BROKER_URL=broker, SECRET_KEY="another", HEADROOM_HOST_FILE=str(folder / "worker.toml"),
        HEADROOM_ENROL_KEY=web.script(ENROLMENT.format(host=drawn["host"])),
    )  # fmt: skip
    try:
        assert "trusts this worker now, by W-1." in gpu.manage("enrol", "--hardware", drawn["host"])
        gpu.start("manage.py", "worker", "--hardware", drawn["host"], log="worker.log")
        web.start("manage.py", "worker", "--office", "--schedule", log="office.log")
        finished = "SELECT status FROM benchmarks_grid WHERE finished_at IS NOT NULL"
        states = wait_for("the grid to finish", lambda: web.rows(finished))
        assert states == [("measured",)], (
            web.rows("SELECT status, reason FROM benchmarks_cell"),
            gpu.log("worker.log"),
        )
        seen = web.rows("SELECT worker_seen_at IS NOT NULL, offers->'targets' FROM benchmarks_hardware")
        assert seen == [(True, [endpoint])], gpu.log("worker.log")
    finally:
        gpu.close()
    proof = web.script(PROOF.format(grid=drawn["grid"]))
    assert [(c["digest"], c["summary"], c["attempts"]) for c in proof["cells"]] == [(True, True, 1)] * 2
    assert web.script(SIGNED.format(grid=drawn["grid"])) == {
        "signed": [True, True],
        "keys": ["W-1"],
        "enrolled": ["W-1"],
    }
    assert not (folder / "web-key").exists()
    assert "permission denied" not in gpu.log("worker.log")


def test_the_door_of_enrolment_opens_only_to_who_knows_the_key(web, role) -> None:
    drawn = web.script(DRAW.format(endpoint="http://127.0.0.1:9", settings=(1,), window_s=1.0))
    token = web.script(ENROLMENT.format(host=drawn["host"]))
    with psycopg.connect(role, autocommit=True) as worker:
        ask = "SELECT headroom_enrol(%s, 'w', 'cHVibGlj')"
        digest = worker.execute("SELECT token_sha256 FROM benchmarks_workerkey").fetchone()
        assert digest
        answers = [worker.execute(ask, [one]).fetchone() for one in (digest[0], token[:-1], token, token)]
    assert answers == [(False,), (False,), (True,), (False,)]
