"""The way back: what the same runtime was last approved for, with its exact arguments."""

from __future__ import annotations

import pytest

from capacity import approvals
from capacity.queries import result_of
from tests.capacity.stored import measure
from tests.capacity.test_approvals import Office
from tests.capacity.test_confirm_page import drawn, open_window

pytestmark = pytest.mark.django_db


def test_the_rollback_of_a_later_grid_is_what_was_approved_before_with_its_flags_and_the_gateways_numbers() -> None:
    office = Office()
    first = office.grid
    assert result_of(first).facts.previous_setting is None
    choice = approvals.propose(grid=first, setting=2, reason="It held.", by=office.operator)
    later = measure(office.drawn())
    assert result_of(later).facts.previous_setting is None  # proposed is not approved
    approvals.decide(choice=choice, by=office.approver, approve=True, reason="Agreed.")
    verdict = result_of(later).verdict
    assert (verdict.recommended, verdict.rollback) == (4, 2)
    assert "2 requests in flight, as approved before" in verdict.rollback_words
    assert f"started with: {office.runtime.flags or 'no flags recorded'}. At the gateway" in verdict.rollback_words
    assert "At the gateway: active requests 2" in verdict.rollback_words
    assert result_of(first).facts.previous_setting is None  # its own approval is no way back from it


def test_what_is_approved_later_changes_nothing_about_an_earlier_approval() -> None:
    office = Office()
    choice = approvals.propose(grid=office.grid, setting=4, reason="It held.", by=office.operator)
    approvals.decide(choice=choice, by=office.approver, approve=True, reason="Agreed.")
    later = measure(office.drawn())
    second = approvals.propose(grid=later, setting=2, reason="Safer.", by=office.operator)
    approvals.decide(choice=second, by=office.approver, approve=True, reason="Agreed.")
    assert result_of(office.grid).facts.previous_setting is None
    facts = result_of(later).facts
    assert facts.previous_setting == 4
    assert "active requests 4, queue cap" in facts.previous_words  # the policy is kept with the approval


def test_a_proposal_keeps_what_was_approved_before_as_its_way_back() -> None:
    office = Office()
    choice = approvals.propose(grid=office.grid, setting=1, reason="It held.", by=office.operator)
    approvals.decide(choice=choice, by=office.approver, approve=True, reason="Agreed.")
    second = approvals.propose(grid=measure(office.drawn()), setting=4, reason="More.", by=office.operator)
    assert second.rollback_setting == 1  # and not 2, the next lower one


def test_a_confirmation_that_comes_after_a_proposal_sends_it_back_to_its_proposer() -> None:
    office = Office()
    choice = approvals.propose(grid=office.grid, setting=4, reason="It held.", by=office.operator)
    confirming = drawn(office.grid, objective_digest=office.grid.objective_digest)
    measure(confirming, of=open_window)
    found = result_of(office.grid).verdict.confirmation
    assert found is not None
    assert found.grid_id == confirming.pk
    with pytest.raises(approvals.Refused, match="The evidence or its judgement changed since this was proposed"):
        approvals.decide(choice=choice, by=office.approver, approve=True, reason="Agreed.")
    approvals.withdraw(choice=choice, by=office.operator, reason="It is confirmed now.")
    again = approvals.propose(grid=office.grid, setting=4, reason="Confirmed.", by=office.operator)
    approvals.decide(choice=again, by=office.approver, approve=True, reason="Agreed.")
    again.refresh_from_db()
    assert again.status == "approved"
