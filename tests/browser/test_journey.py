"""The main job in a browser, from a host's registration to a statement that verifies, on a desk and on a phone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from scripts.run import VERSION
from tests.browser.house import TRIES, House
from tests.browser.person import People, Person

pytestmark = [pytest.mark.browser, pytest.mark.slow]

E2E_LIMIT_S = "0.3"
"""Two in flight keep it and sixteen do not: a setting that is simply the highest accepted is signed by nobody."""
CLASSES = ("short", "long")
CHECK_MS = 60_000
GRID_MS = 90_000


def register_host(operator: Person, name: str) -> None:
    operator.go("/hosts/")
    operator.go("/hosts/new/")
    operator.fill(name=name, place="Room 2", cpu="Two cores", ram_gib="8")
    operator.press("Register host")
    expect(operator.page.get_by_role("heading", level=1)).to_contain_text(name)


def look_and_test(operator: Person, house: House, host: str) -> None:
    """The worker looks at the endpoint, its answer fills the form in, then it sends one request."""
    operator.go("/runtimes/")
    operator.go("/runtimes/new/")
    operator.fill(hardware=host, kind="Headroom", endpoint=house.endpoint)
    for button in ("Look at this endpoint", "Test with one request"):
        operator.press(button)
        expect(operator.page.locator("#check .hr-note-ok")).to_be_visible(timeout=CHECK_MS)
        operator.look()
        operator.page.locator("#check .hr-pf a").click()
        operator.page.wait_for_url("**/runtimes/new/?check=*")
        operator.look()


def register_runtime(operator: Person, house: House, name: str, host: str) -> None:
    look_and_test(operator, house, host)
    expect(operator.page.locator('[name="model_name"]')).to_have_value("headroom-simulated-demo")
    operator.fill(name=name, runtime_version=VERSION, max_active_sequences="8", metrics_url=house.endpoint + "/metrics")
    operator.press("Register runtime")
    expect(operator.page.get_by_role("heading", level=1)).to_contain_text(name)


def register_workload(operator: Person, name: str) -> None:
    """From the three classes that the page begins with: two are made short, the one between is taken out."""
    operator.go("/workloads/")
    operator.go("/workloads/new/")
    operator.fill(name=name)
    operator.field("classes-1-DELETE", True)
    for number, tokens in ((0, 10), (2, 14)):
        for side, typical in (("prompt", 2 * tokens), ("output", tokens)):
            operator.field(f"classes-{number}-{side}_kind", "Fixed")
            operator.field(f"classes-{number}-{side}_typical", str(typical))
    operator.press("Register workload")
    expect(operator.page.get_by_role("heading", level=1)).to_contain_text(name)


def register_objective(operator: Person, name: str) -> None:
    operator.go("/objectives/")
    operator.go("/objectives/new/")
    operator.fill(name=name)
    for number, class_name in enumerate(CLASSES):
        operator.field(f"classes-{number}-class_name", class_name)
        operator.field(f"classes-{number}-e2e_s", E2E_LIMIT_S)
        operator.field(f"classes-{number}-ttft_s", "")
    operator.field("classes-2-DELETE", True)
    operator.press("Set objective")
    expect(operator.page.get_by_role("heading", level=1)).to_contain_text(name)


def draw(operator: Person, name: str) -> int:
    """The plan beside the form follows each choice without a reload; what is typed meanwhile stays."""
    page = operator.page
    operator.go("/grids/")
    operator.go("/grids/new/")
    operator.fill(name=name, runtime=name, workload=name, objective=name)
    expect(page.locator('[name="class_names"][value="long"]')).to_be_visible()
    operator.fill(class_names=["short", "long"])
    operator.fill(setting_values=["1", "2", "16"])
    operator.fill(repeats="1", window_s="2", warmup_s="0.5", power_source="grid", room="Room 2", ambient_c="21")
    operator.fill(ambient_source="Read by hand", reason="To see the whole way.")
    page.locator('[name="reason"]').blur()
    expect(page.locator("aside")).to_contain_text("6 (")
    expect(page.locator('[name="name"]')).to_have_value(name)
    expect(page.locator('[name="reason"]')).to_have_value("To see the whole way.")
    operator.look()
    operator.press("Draw grid")
    found = re.match(r"/grids/(\d+)/", operator.path())
    assert found, f"drawing led to {operator.path()}"
    return int(found[1])


def authorize(owner: Person, grid: int) -> None:
    owner.go(f"/grids/{grid}/authorise/")
    owner.fill(password=owner.password)
    owner.press("Authorise this plan")


def watch(operator: Person, grid: int) -> None:
    """The live page renews itself until the grid has ended; the page is never loaded again."""
    page = operator.go(f"/grids/{grid}/live/")
    page.evaluate("() => { window.sameDocument = true; }")
    expect(page.get_by_role("link", name="See the result")).to_be_visible(timeout=GRID_MS)
    assert page.evaluate("() => window.sameDocument === true"), "the live page was loaded again"
    assert "hx-trigger" not in page.locator("#live").evaluate("e => e.outerHTML.slice(0, 400)"), "it still polls"
    # The guard may end a cell of the highest setting; each was run, and nothing is told twice.
    expect(page.locator("#live")).to_contain_text(
        re.compile(r"(6 of 6 cells measured|5 of 6 cells measured, 1 stopped)\.")
    )
    operator.look()
    page.get_by_role("link", name="See the result").click()
    page.wait_for_url(f"**/grids/{grid}/")
    expect(page.locator(".hr-chart .main-svg").first).to_be_visible()
    operator.look()


def measure(operator: Person, owner: Person, name: str) -> int:
    """A grid with something to propose. A busy machine may hold the load client up, which the result then says."""
    for _ in range(TRIES):
        grid = draw(operator, name)
        authorize(owner, grid)
        watch(operator, grid)
        page = operator.go(f"/grids/{grid}/propose/")
        offered = page.locator("section", has_text="Recommended.")
        if offered.count() and "Not complete" not in offered.first.inner_text():
            return grid
    raise AssertionError(f"no safe setting in {TRIES} grids: {page.get_by_role('main').inner_text()}")


def propose(operator: Person, grid: int) -> int:
    operator.go(f"/grids/{grid}/propose/")
    operator.press("Propose")
    found = re.match(r"/approvals/(\d+)/", operator.path())
    assert found, f"proposing led to {operator.path()}"
    return int(found[1])


def approve(approver: Person, choice: int) -> None:
    approver.go("/approvals/")
    approver.go(f"/approvals/{choice}/")
    approver.fill(decision="approve", reason="The evidence is complete.", password=approver.password)
    approver.press("Record my decision")


def issue(signer: Person, choice: int) -> str:
    signer.go(f"/approvals/{choice}/")
    signer.fill(password=signer.password)
    signer.press("Sign and issue")
    found = re.match(r"/statements/([\w-]+)/", signer.path())
    assert found, f"issuing led to {signer.path()}"
    return found[1]


def download(viewer: Person, statement: str, folder: Path) -> list[Path]:
    viewer.go("/statements/")
    viewer.go(f"/statements/{statement}/")
    files = []
    for link, suffix in (("JSON", "json"), ("Download PDF", "pdf")):
        with viewer.page.expect_download() as started:
            viewer.page.get_by_role("link", name=link, exact=True).click()
        file = folder / f"{statement}.{suffix}"
        started.value.save_as(file)
        files.append(file)
    assert json.loads(files[0].read_bytes())["payloadType"]
    assert files[1].read_bytes().startswith(b"%PDF-")
    return files


def verify(nobody: Person, files: list[Path], folder: Path) -> None:
    """Without an account. The same file with one changed byte is not genuine."""
    changed = folder / "changed.pdf"
    content = bytearray(files[1].read_bytes())
    content[len(content) // 2] ^= 1
    changed.write_bytes(content)
    for file, genuine in ((files[0], True), (files[1], True), (changed, False)):
        nobody.go("/v/")
        nobody.page.locator("#file").set_input_files(file)
        nobody.press("Verify")
        heading = nobody.page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("genuine")
        assert ("not" not in heading.inner_text().split()) is genuine, heading.inner_text()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_whole_way_from_a_host_to_a_verified_statement(
    width: int, house: House, people: People, tmp_path: Path
) -> None:
    name = f"Way at {width}"
    operator = people("operator", width=width)
    operator.go("/")
    register_host(operator, name)
    register_runtime(operator, house, name, name)
    register_workload(operator, name)
    register_objective(operator, name)
    grid = measure(operator, people("host-owner", width=width), name)
    choice = propose(operator, grid)
    approve(people("approver", width=width), choice)
    statement = issue(people("signer", width=width), choice)

    viewer = people("viewer", width=width)
    files = download(viewer, statement, tmp_path)
    verify(people("", width=width), files, tmp_path)
    for path in ("/", "/grids/", "/authorisations/", "/audit/", "/docs/", f"/grids/{grid}/conditions/after/"):
        operator.go(path)
    assert people.faults() == [], "\n".join(people.faults())
