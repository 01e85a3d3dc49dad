"""A statement of a setting that an open loop confirmed gives that loop's rate, refusals and times, and lists its evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from benchmarks.models import Cell, Grid, Role
from capacity import approvals
from capacity.assessment.verdict import Answer
from capacity.models import Statement
from capacity.queries import result_of
from capacity.statement import words
from capacity.statement.document import Confirmed, Document, EvidenceCell
from tests.capacity import stored
from tests.capacity.test_approvals import Office, keys, signed_in
from tests.capacity.test_confirm_page import drawn, open_window
from tests.factories import make_user

pytestmark = pytest.mark.django_db
__all__ = ["keys"]


def confirmed(of: Office, *, allowed: bool = True) -> Grid:
    """The open loop of the recommended setting, run under an authorisation of its own."""
    found = drawn(
        of.grid, drawn_by=of.operator, objective_digest=of.objective.digest, objective_set_at=of.set_at,
        limits=result_of(of.grid).facts.limits,
    )  # fmt: skip
    if allowed:
        of.authorize(found, of.owner)
    return stored.measure(found, of=open_window)


def issued(of: Office) -> tuple[Statement, Document]:
    statement = approvals.issue_statement(choice=of.approved(), by=of.signer, title="One", valid_days=30)
    return statement, approvals.document_of(statement)


def test_rate_refusals_and_times_are_those_of_the_confirming_cells(keys: Path) -> None:
    of = Office()
    loop = confirmed(of)
    judged = result_of(of.grid).verdict.confirmation
    assert judged is not None
    assert judged.answer == Answer.HOLDS, judged.words
    _, document = issued(of)
    one, result = document.confirmed, document.result
    assert isinstance(one, Confirmed)
    assert result is not None
    assert (one.grid, one.rate_per_minute, one.queue_cap) == (f"Grid {loop.pk}", judged.rate_per_min, judged.queue_cap)
    assert result.successful_per_minute.value == one.successful_per_minute.value == judged.good.value
    assert judged.refused is not None
    assert (one.refused.hits, one.refused.n) == (judged.refused.hits, judged.refused.n)
    assert [claim.bound_s for claim in one.claims] == [claim.bound_s for claim in judged.claims]
    assert [claim.n for claim in one.claims] == [200, 200, 200]
    assert [who.name for who in one.authorised] == [of.owner.username]
    chosen = next(row for row in document.rows if row.chosen)
    assert chosen.successful_per_minute is not None
    assert chosen.successful_per_minute.value != result.successful_per_minute.value
    said = words.result_sentence(document)
    assert "and a queue of at most four" in said
    assert "while 120.0 a minute arrived at their own times; none of them was refused" in said


def test_the_manifest_lists_the_confirming_evidence_and_each_cells_authorisation(keys: Path) -> None:
    of = Office()
    loop = confirmed(of)
    _, document = issued(of)
    (cell,) = Cell.objects.filter(grid=loop).select_related("evidence")
    leaves = {of.grid.pk: f"{of.grid.authorizations.get()}", loop.pk: f"{loop.authorizations.get()}"}
    assert document.evidence[-1] == EvidenceCell(
        cell=f"grid {loop.pk}, open loop 120 a minute, r1",
        sha256=cell.evidence.sha256,
        records=20,
        leave=leaves[loop.pk],
    )
    assert {one.leave for one in document.evidence[:-1]} == {leaves[of.grid.pk]}
    assert len(document.evidence) == of.grid.cells.count() + 1


def test_the_table_keeps_the_comparison_and_shows_what_was_confirmed_apart(keys: Path) -> None:
    of = Office()
    confirmed(of)
    statement, document = issued(of)
    table = words.page(document).table
    assert [line.cells[0].text for line in table.lines] == ["1", "2", "4", "8", "4, confirmed"]
    assert [line.apart for line in table.lines] == [False, False, False, False, True]
    assert [line.chosen for line in table.lines] == [False, False, False, False, True]
    shown = signed_in(make_user(of.team, Role.VIEWER)).get(statement.get_absolute_url()).content.decode()
    assert "4, confirmed" in shown
    assert "Confirmed in an open loop" in shown


def test_without_an_open_loop_the_statement_says_how_it_was_loaded(keys: Path) -> None:
    _, document = issued(Office())
    page = words.page(document)
    assert not isinstance(document.confirmed, Confirmed)
    assert "a fixed number in flight, where no queue forms" in page.not_users_rest
    assert [line.cells[0].text for line in page.table.lines] == ["1", "2", "4, approved", "8"]


def test_a_confirmation_that_nobody_authorised_is_not_stated(keys: Path) -> None:
    of = Office()
    confirmed(of, allowed=False)
    with pytest.raises(approvals.Refused, match="authorised the confirming load"):
        issued(of)


def test_the_annexes_hold_controls_criteria_diagnosis_cells_and_method(keys: Path) -> None:
    _, document = issued(Office())
    annexes = {block.heading: block for block in words.page(document).annexes}
    verdict_titles = [one.title for one in document.criteria or ()]
    table = annexes["Grade"].table
    assert table is not None
    assert [line.cells[0].text for line in table.lines] == verdict_titles
    assert len(document.diagnosis or ()) == 7
    assert len(document.cells or ()) == len(document.evidence)
    assert {"Controls that go with the setting", "Diagnosis", "Cells", "Method and definitions", "Evidence"} <= set(
        annexes
    )


def test_the_limits_in_force_name_queue_tokens_overload_answer_and_retries(keys: Path) -> None:
    _, document = issued(Office())
    said = "; ".join(document.operating_limits)
    for part in ("in flight at the server", "tokens in", "tokens out", "overload answered with", "client retries"):
        assert part in said


def test_anyone_sees_the_confirmed_sentence_on_the_public_page(keys: Path) -> None:
    of = Office()
    confirmed(of)
    statement, _ = issued(of)
    public = Client().get(f"/v/{statement.number}/{statement.digest[:12]}/").content.decode()
    assert "arrived at their own times" in public


def test_what_lies_outside_the_tested_box_is_said_not_to_be_tested(keys: Path) -> None:
    _, document = issued(Office())
    assert "More than 8 in flight: not measured." in document.not_tested
    assert len(set(document.not_tested)) == len(document.not_tested)
