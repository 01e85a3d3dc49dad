"""Every kind of page in every state: at 1440 and 390 px, light and dark, unfolded, with dialogs open, without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts.big_house import NEWCOMER
from scripts.page_kinds import NOBODY, expected, linked, of_office, of_states
from tests.browser.house import States
from tests.browser.person import People, Person

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ACCOUNTS = (NOBODY, "operator", "host-owner", "approver", "signer", "viewer", NEWCOMER)


@pytest.fixture
def visitors(states: States, chromium) -> Iterator[People]:
    made = People(chromium, states.origin, states.passwords)
    yield made
    made.close()


def paths_of(one: Person, states: States) -> list[str]:
    paths = of_states(states.numbers)[one.account]
    more = linked(one.page, paths) if one.account == "operator" else ()
    return list(dict.fromkeys([*paths, *more]))


def opened(one: Person, path: str) -> None:
    """A page that is refused or is not there is told by the browser's console, which is no fault of the page."""
    before = len(one.faults)
    answer = one.page.goto(path)
    assert answer is not None
    status = expected(one.account, path)
    assert answer.status == status, f"{one.account or 'nobody'} got {answer.status} at {path}"
    if status != 200:
        told = f"the server responded with a status of {status}"
        one.faults[before:] = [fault for fault in one.faults[before:] if told not in fault]


def test_each_account_has_its_pages(states: States) -> None:
    assert tuple(of_states(states.numbers)) == ACCOUNTS


@pytest.mark.parametrize("account", ACCOUNTS, ids=[name or "nobody" for name in ACCOUNTS])
def test_every_page_is_quiet_fits_and_is_accessible_in_every_state(
    account: str, states: States, visitors: People
) -> None:
    one = visitors(account)
    for path in paths_of(one, states):
        opened(one, path)
        one.look_every_way()
    assert visitors.faults() == [], "\n".join(visitors.faults())


def test_the_pages_of_hosts_with_gpus_are_quiet_fit_and_are_accessible(office: States, chromium) -> None:
    people = People(chromium, office.origin, office.passwords)
    one = people("operator")
    for path in of_office(office.numbers)["operator"]:
        opened(one, path)
        one.look_every_way()
    assert people.faults() == [], "\n".join(people.faults())
    people.close()


@pytest.mark.parametrize("account", ACCOUNTS, ids=[name or "nobody" for name in ACCOUNTS])
def test_every_page_is_read_and_its_forms_are_whole_without_javascript(
    account: str, states: States, visitors: People
) -> None:
    """What a page says stands in it: a heading, words, and for each form a button to send it with."""
    one = visitors(account, scripts=False, width=390)
    for path in paths_of(one, states):
        opened(one, path)
        one.look()
        main = one.page.locator("main")
        assert main.locator("h1").count() == 1, path
        assert len(main.inner_text().split()) >= 5, path
        for form in one.page.locator("main form:visible").all():
            assert form.locator("button:not([type=button]), input[type=submit]").count(), (
                f"a form of {path} has no button"
            )
    assert visitors.faults() == [], "\n".join(visitors.faults())
