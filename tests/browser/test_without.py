"""Without JavaScript the forms of the main job work; without a mouse a decision can be made."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from scripts.journey import Journey
from tests.browser.person import People, Person
from tests.browser.test_journey import authorize

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WITHIN_S = 120
MOST_STOPS = 120
FOCUS = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const at = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height, 20) / 2);
  const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  return {tag: e.tagName.toLowerCase(), name: e.getAttribute('name') || '', type: e.type || '', value: e.value || '',
    words: (e.innerText || '').trim(), href: e.getAttribute('href') || '', outlined: ring || style.boxShadow !== 'none',
    onTop: Boolean(at && (e === at || e.contains(at) || at.contains(e))),
    inView: box.bottom > 0 && box.top < innerHeight};
}"""


def finish(operator: Person, grid: int) -> None:
    """Loads the live page again, as a person without a script does, until it offers the result."""
    until = time.monotonic() + WITHIN_S
    link = operator.page.get_by_role("link", name="See the result")
    while operator.go(f"/grids/{grid}/live/") and not link.count():
        assert time.monotonic() < until, f"grid {grid} has not finished in {WITHIN_S} s"
        time.sleep(1)
    link.click()


def test_a_grid_is_drawn_authorised_and_read_without_javascript(people: People, measured: int) -> None:
    operator = people("operator", scripts=False)
    operator.go("/grids/new/")
    operator.fill(name="Without scripts", runtime="Prepared", workload="Prepared", objective="Prepared")
    operator.press("Update the plan")
    operator.fill(class_names=["short"], setting_values=["1"], repeats="1", window_s="2", warmup_s="0.5")
    operator.press("Draw grid")
    found = re.match(r"/grids/(\d+)/", operator.path())
    assert found, f"drawing led to {operator.path()}"
    grid = int(found[1])
    assert grid != measured
    authorize(people("host-owner", scripts=False), grid)
    finish(operator, grid)
    operator.look()
    assert operator.path() == f"/grids/{grid}/"
    expect(operator.page.get_by_role("table").first).to_contain_text("Short")
    assert people.faults() == [], "\n".join(people.faults())


def tab_to(page: Page, *, name: str = "", words: str = "", href: str = "") -> None:
    """Presses Tab until the field, button or link has the focus. Each stop is outlined, in view, and under nothing."""
    for number in range(MOST_STOPS):
        if number or page.evaluate("document.activeElement === document.body"):
            page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        assert stop["outlined"], stop
        assert stop["inView"], stop
        assert stop["onTop"], stop
        wanted = {"name": name, "words": words, "href": href}
        if any(value and stop[key] == value for key, value in wanted.items()):
            return
    raise AssertionError(f"{name or words or href} was not reached in {MOST_STOPS} stops")


def signed_in(people: People, journey: Journey, account: str) -> Person:
    """With the keys alone."""
    one = people("")
    one.password = journey.as_(account).password
    page = one.go("/login/")
    tab_to(page, name="username")
    page.keyboard.type(account)
    tab_to(page, name="password")
    page.keyboard.type(one.password)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/login" not in url)
    return one


def entered(one: Person, *, href: str = "", words: str = "") -> None:
    """Goes to the link or button and presses Enter."""
    tab_to(one.page, href=href, words=words)
    with one.page.expect_navigation(wait_until="load"):
        one.page.keyboard.press("Enter")
    one.look()


def approved(one: Person, choice: int) -> None:
    one.go("/approvals/")
    entered(one, href=f"/approvals/{choice}/")
    tab_to(one.page, name="decision")
    one.page.keyboard.press("Space")
    tab_to(one.page, name="reason")
    one.page.keyboard.type("Read, and it holds.")
    tab_to(one.page, name="password")
    one.page.keyboard.type(one.password)
    entered(one, words="Record my decision")
    expect(one.page.get_by_role("main")).to_contain_text("Read, and it holds.")
    expect(one.page.get_by_role("main")).to_contain_text("Approved")


def test_a_proposal_is_approved_signed_and_downloaded_by_keyboard_alone(
    people: People, journey: Journey, measured: int, tmp_path: Path
) -> None:
    choice = journey.propose(measured)
    approved(signed_in(people, journey, "approver"), choice)

    signer = signed_in(people, journey, "signer")
    signer.go("/approvals/")
    entered(signer, href=f"/approvals/{choice}/")
    tab_to(signer.page, name="password")
    signer.page.keyboard.type(signer.password)
    entered(signer, words="Sign and issue")
    statement = signer.path()
    assert statement.startswith("/statements/")

    viewer = signed_in(people, journey, "viewer")
    viewer.go("/statements/")
    entered(viewer, href=statement)
    for words, begins in (("JSON", b"{"), ("Download PDF", b"%PDF-")):
        tab_to(viewer.page, words=words)
        with viewer.page.expect_download() as started:
            viewer.page.keyboard.press("Enter")
        started.value.save_as(tmp_path / "file")
        assert (tmp_path / "file").read_bytes().startswith(begins)
    assert people.faults() == [], "\n".join(people.faults())
