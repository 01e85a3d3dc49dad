"""What a worker measured is signed with its own key; pages and `recompute` say so, and who changed a row cannot."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from benchmarks import queries, signing, storing, triggers
from benchmarks.engine.columns import from_frames
from benchmarks.engine.summary import summarise
from benchmarks.engine.terms import End, Window
from benchmarks.models import Evidence, Grid, WorkerKey
from benchmarks.records import signatures
from benchmarks.records.parquet import SCHEMA_VERSION, write
from benchmarks.records.result import Result
from tests import factories
from tests.benchmarks.engine.plans import S, a_header, a_record
from tests.benchmarks.runs.made import claim, running_grid

pytestmark = pytest.mark.django_db


@pytest.fixture
def kept(tmp_path: Path, settings) -> Evidence:
    """Evidence as a worker stores it, in a folder of its own."""
    settings.VAR, settings.WEB_KEY_FILE = tmp_path, tmp_path / "web-key"
    grid = running_grid(settings=(1,), class_names=("short",))
    end = End(t_ns=2 * S, complete=True, reason="window completed", sent=1)
    columns = from_frames([a_header(), a_record(0), Window(start_ns=0, end_ns=S), end])
    result = Result(
        parquet=write(columns), schema_version=SCHEMA_VERSION, requests=1, summary=summarise(columns, columns.plan),
        progress={"recorded": 1},
    )  # fmt: skip
    assert storing.store(claim(grid), result)
    triggers.take_away()
    return Evidence.objects.select_related("key", "cell__grid").get()


def reread(evidence: Evidence) -> Evidence:
    return Evidence.objects.select_related("key", "cell__grid").get(pk=evidence.pk)


def recompute(grid_id: int) -> tuple[int, str]:
    said, code = StringIO(), 0
    try:
        call_command("recompute", str(grid_id), "--check", stdout=said, stderr=said)
    except SystemExit as end:
        code = int(str(end.code))
    return code, said.getvalue()


def test_it_names_the_key_of_the_hosts_worker_and_its_signature_holds(kept: Evidence) -> None:
    own = signing.enrolled(kept.cell.grid.hardware.slug)
    assert own
    assert (kept.key_id, signing.evidence_is_signed(kept)) == (own.number, True)
    assert queries.cell_evidence(kept.cell).signed_by == f"W-{own.number}"
    code, said = recompute(kept.cell.grid_id)
    assert (code, "1 are signed by the key of their host's worker, 0 are not." in said) == (0, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: Evidence.objects.update(sha256="0" * 64),
        lambda kept: Evidence.objects.update(attempt=7),
        lambda kept: Evidence.objects.update(schema_version=1),
        lambda kept: Evidence.objects.update(
            signature=signatures.sign(signatures.new_private_key(), signatures.EVIDENCE, {})
        ),
        lambda kept: Evidence.objects.update(signature="?"),
        lambda kept: Evidence.objects.update(key=None),
        lambda kept: Grid.objects.update(digest="0" * 64),
        lambda kept: WorkerKey.objects.update(hardware=factories.make_hardware()),
        lambda kept: WorkerKey.objects.update(public_key=signatures.public_key(signatures.new_private_key())),
    ],
)
def test_a_changed_row_has_no_signature_that_holds(kept: Evidence, change) -> None:
    change(kept)
    assert signing.evidence_is_signed(reread(kept)) is False
    code, said = recompute(kept.cell.grid_id)
    assert (code, "0 are signed" in said) == (1, True)


def test_a_signature_for_one_purpose_holds_for_no_other() -> None:
    key = signatures.new_private_key()
    public, signature = signatures.public_key(key), signatures.sign(key, signatures.EVIDENCE, {"a": 1})
    assert signatures.holds(public, signatures.EVIDENCE, {"a": 1}, signature)
    assert not signatures.holds(public, signatures.AUTHORIZATION, {"a": 1}, signature)
    assert not signatures.holds(public, signatures.EVIDENCE, {"a": 1.0}, signature)
    assert not signatures.holds("not a key", signatures.EVIDENCE, {"a": 1}, signature)


def test_the_page_of_a_cell_says_which_key_signed_and_whether_it_holds(kept: Evidence, client) -> None:
    client.force_login(factories.make_user(kept.cell.grid.team, "viewer"))
    address = f"/grids/{kept.cell.grid_id}/cells/{kept.cell_id}/"
    page = client.get(address).content.decode()
    assert (f"by worker key {kept.key}" in page, "does not hold" in page) == (True, False)
    Evidence.objects.update(attempt=7)
    assert "does not hold" in client.get(address).content.decode()
