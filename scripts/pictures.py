"""`make pictures`: every page at 1440 and 390 px, light and dark, into var/pictures/, of the Headroom in var/demo.

    python -m scripts.pictures [--readme]      --readme also renews docs/picture.png

`make demo` comes first where there is nothing to show yet. Lists lead to the detail pages, so new rows are seen too.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from capacity.management.accounts import read_passwords
from scripts.chromium import STEP_MS, WIDTHS, launch, sign_in
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

NOBODY = ""
# Account to the pages that are drawn for it. Part of them is not there in every Headroom; those are left out.
PAGES = {
    NOBODY: ["/login/", "/v/", "/no/such/page/"],
    "operator": [
        "/", "/hosts/", "/hosts/new/", "/runtimes/", "/runtimes/new/", "/workloads/", "/workloads/new/", "/workloads/import/",
        "/objectives/", "/objectives/new/", "/grids/", "/grids/new/", "/authorisations/", "/approvals/", "/statements/",
        "/audit/", "/docs/",
    ],
    "host-owner": ["/grids/1/authorise/", "/grids/1/conditions/after/"],
    "approver": ["/approvals/1/"],
    "viewer": ["/statements/"],
}  # fmt: skip
# What the operator's lists lead to: one of each kind is enough.
KINDS = (
    r"/hosts/(?!new/)[\w-]+/", r"/hosts/[\w-]+/edit/", r"/runtimes/[\w-]+/\d+/", r"/runtimes/[\w-]+/\d+/edit/",
    r"/workloads/[\w-]+/\d+/", r"/workloads/[\w-]+/\d+/edit/",
    r"/workloads/[\w-]+/\d+/modes/", r"/grids/new/\?workload=\d+&mode=\w+",
    r"/objectives/[\w-]+/\d+/", r"/objectives/[\w-]+/\d+/edit/",
    r"/grids/\d+/", r"/grids/\d+/live/", r"/grids/\d+/propose/", r"/grids/\d+/cells/\d+/",
    r"/grids/\d+/quality/",
    r"/authorisations/\d+/", r"/approvals/\d+/", r"/statements/[\w-]+/", r"/v/[\w-]+/\w+/",
    r"/docs/[\w-]+/", r"/grids/new/\?from=\d+",
)  # fmt: skip
ERRORS = {"/no/such/page/"}


@dataclass(frozen=True, slots=True)
class Shot:
    account: str
    path: str

    def name(self, width: int, scheme: str) -> str:
        words = re.sub(r"\W+", "-", self.path).strip("-") or "overview"
        return f"{words}{'-' + self.account if self.account not in ('', 'operator') else ''}-{width}-{scheme}.png"


def visitor(browser: Browser, stack: Stack, account: str, password: str, *, width: int, scheme: str) -> Page:
    context = browser.new_context(
        base_url=stack.base_url,
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(STEP_MS)
    page = context.new_page()
    if account:
        sign_in(page, account, password)
    return page


def found_pages(page: Page) -> list[str]:
    """One address of each kind, as the lists and the pages they lead to link to them."""
    found: dict[str, str] = {}
    waiting, seen = list(PAGES["operator"]), set[str]()
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        page.goto(path)
        for link in page.eval_on_selector_all("main a[href]", "links => links.map((a) => a.getAttribute('href'))"):
            kind = next((kind for kind in KINDS if re.fullmatch(kind, link)), None)
            if kind is not None and kind not in found:
                found[kind] = link
                waiting.append(link)
    return list(found.values())


def picture(page: Page, shot: Shot, file: Path) -> bool:
    answer = page.goto(shot.path)
    if answer is None or (answer.status != 200 and shot.path not in ERRORS):
        return False
    page.wait_for_load_state("networkidle")
    if page.locator(".hr-chart").count():
        page.locator(".hr-chart .main-svg").first.wait_for()
    page.screenshot(path=file, full_page=True)
    return True


def shoot(browser: Browser, stack: Stack, passwords: dict[str, str], folder: Path) -> Iterator[Path]:
    """Takes all pictures; yields the file of each."""
    scout = visitor(browser, stack, "operator", passwords["operator"], width=1440, scheme="light")
    more = found_pages(scout)
    scout.context.close()
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            for account, paths in PAGES.items():
                page = visitor(browser, stack, account, passwords.get(account, ""), width=width, scheme=scheme)
                for path in [*paths, *(more if account == "operator" else ())]:
                    shot = Shot(account, path)
                    file = folder / shot.name(width, scheme)
                    if picture(page, shot, file):
                        yield file
                page.context.close()


def renew(browser: Browser, stack: Stack, password: str, target: Path) -> None:
    """The first screen of the first grid's result, as the README shows it."""
    page = visitor(browser, stack, "operator", password, width=1440, scheme="light")
    page.goto("/grids/1/")
    page.locator(".hr-chart .main-svg").first.wait_for()
    page.wait_for_load_state("networkidle")
    target.parent.mkdir(exist_ok=True)
    page.screenshot(path=target, clip={"x": 0, "y": 0, "width": 1440, "height": 1000}, full_page=True)
    page.context.close()


def main() -> int:
    end_on_signals()
    home, folder = ROOT / "var" / "demo", ROOT / "var" / "pictures"
    passwords = read_passwords(home / "demo-accounts.txt")
    if "operator" not in passwords:
        print("headroom: no data to show: run `make demo` first", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with Stack(home, free_port()) as stack, sync_playwright() as playwright:
            stack.start_web()
            browser = launch(playwright)
            if "--readme" in sys.argv:
                renew(browser, stack, passwords["operator"], ROOT / "docs" / "picture.png")
            taken = list(shoot(browser, stack, passwords, folder))
            browser.close()
    except StackError as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    print(f"{len(taken)} pictures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
