"""`make pictures`: every page at 1440 and 390 px, light and dark, into var/pictures/, of the Headroom in var/demo.

    python -m scripts.pictures [--readme]      --readme also renews docs/picture.png

Run `make demo` first: its data show every page with something on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from capacity.management.accounts import read_passwords
from scripts.chromium import WIDTHS, launch, sign_in
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

PATHS = {
    "overview": "/",
    "hosts": "/hosts/",
    "host-new": "/hosts/new/",
    "host": "/hosts/demonstration-host/",
    "runtimes": "/runtimes/",
    "runtime-new": "/runtimes/new/",
    "runtime": "/runtimes/simulated-runtime/1/",
    "workloads": "/workloads/",
    "workload-new": "/workloads/new/",
    "objectives": "/objectives/",
    "objective-new": "/objectives/new/",
    "grids": "/grids/",
    "grid-new": "/grids/new/",
    "grid": "/grids/1/",
    "grid-live": "/grids/1/live/",
    "authorisations": "/authorisations/",
    "approvals": "/approvals/",
    "approval": "/approvals/1/",
    "statements": "/statements/",
    "verify": "/v/",
    "audit": "/audit/",
}


def shots(browser: Browser, base_url: str, password: str) -> Iterator[tuple[str, Page]]:
    for width, height in WIDTHS.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(
                base_url=base_url,
                viewport={"width": width, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page = context.new_page()
            sign_in(page, "operator", password)
            for name, path in PATHS.items():
                page.goto(base_url + path)
                page.wait_for_load_state("networkidle")
                yield f"{name}-{width}-{scheme}", page
            context.close()


def main() -> int:
    end_on_signals()
    home, folder = ROOT / "var" / "demo", ROOT / "var" / "pictures"
    password = read_passwords(home / "demo-accounts.txt").get("operator")
    if password is None:
        print("headroom: no data to show: run `make demo` first", file=sys.stderr)
        return 1
    folder.mkdir(exist_ok=True)
    try:
        with Stack(home, free_port()) as stack, sync_playwright() as playwright:
            stack.start_web()
            browser = launch(playwright)
            for name, page in shots(browser, stack.base_url, password):
                page.screenshot(path=folder / f"{name}.png", full_page=True)
                if name == "grid-1440-light" and "--readme" in sys.argv:
                    renew(page, ROOT / "docs" / "picture.png")
            browser.close()
    except StackError as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")
    return 0


def renew(page: Page, target: Path) -> None:
    """The upper part of the result page, as the README shows it."""
    target.parent.mkdir(exist_ok=True)
    page.screenshot(path=target, clip={"x": 0, "y": 0, "width": 1440, "height": 1000}, full_page=True)


if __name__ == "__main__":
    sys.exit(main())
