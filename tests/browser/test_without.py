"""Without JavaScript the forms of the main job work; without a mouse a decision can be made."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from scripts.journey import Journey
from tests.browser.person import People, Person
from tests.browser.test_journey import authorize

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WITHIN_S = 120
MOST_STOPS = 80
FOCUS = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const at = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height, 20) / 2);
  const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  return {tag: e.tagName.toLowerCase(), name: e.getAttribute('name') || '', type: e.type || '', value: e.value || '',
    words: (e.innerText || '').trim(), outlined: ring || style.boxShadow !== 'none',
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


def tab_to(page: Page, *, name: str = "", words: str = "") -> None:
    """Presses Tab until the field or button has the focus. Each stop is outlined, in view, and under nothing."""
    for number in range(MOST_STOPS):
        if number or page.evaluate("document.activeElement === document.body"):
            page.keyboard.press("Tab")
        stop = page.evaluate(FOCUS)
        assert stop["outlined"], stop
        assert stop["inView"], stop
        assert stop["onTop"], stop
        if (name and stop["name"] == name) or (words and stop["words"] == words):
            return
    raise AssertionError(f"{name or words} was not reached in {MOST_STOPS} stops")


def test_a_proposal_is_approved_by_keyboard_alone(people: People, journey: Journey, measured: int) -> None:
    choice = journey.propose(measured)
    approver = people("")
    approver.password = journey.as_("approver").password
    page = approver.go("/login/")
    tab_to(page, name="username")
    page.keyboard.type("approver")
    tab_to(page, name="password")
    page.keyboard.type(approver.password)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/login" not in url)

    approver.go(f"/approvals/{choice}/")
    tab_to(page, name="decision")
    page.keyboard.press("Space")
    tab_to(page, name="reason")
    page.keyboard.type("Read, and it holds.")
    tab_to(page, name="password")
    page.keyboard.type(approver.password)
    tab_to(page, words="Record my decision")
    with page.expect_navigation(wait_until="load"):
        page.keyboard.press("Enter")
    approver.look()
    expect(page.get_by_role("main")).to_contain_text("Read, and it holds.")
    expect(page.get_by_role("main")).to_contain_text("Approved")
    assert people.faults() == [], "\n".join(people.faults())
