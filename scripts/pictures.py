"""`make pictures`: every page at 1440 and 390 px, light and dark, into var/pictures/, each with its dialogs open too.

    python -m scripts.pictures [--readme]      --readme also renews docs/picture.png

Of the Headroom that `make demo` left in var/demo, of that of `make example`, of a made-up office with GPUs, and of one with
a grid in every state, an empty team and a refused page. Lists lead to the detail pages, so new rows are seen too.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from capacity.management.accounts import read_passwords
from scripts.big_house import PAGES as PAGES_FILE
from scripts.big_house import SMALL
from scripts.chromium import STEP_MS, WIDTHS, launch, sign_in
from scripts.page_kinds import expected, linked, of_demonstration, of_office, of_states
from scripts.run import prepare
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

SETTLES_MS = 400
"""Charts take the new width a tenth of a second after the window has it."""


@dataclass(frozen=True, slots=True)
class Shot:
    account: str
    path: str

    def name(self, width: int, scheme: str) -> str:
        words = re.sub(r"\W+", "-", self.path).strip("-") or "overview"
        return f"{words}{'-' + self.account if self.account not in ('', 'operator') else ''}-{width}-{scheme}.png"


def visitor(browser: Browser, stack: Stack, account: str, password: str) -> Page:
    """A window of this account; width and colours are set for each picture."""
    context = browser.new_context(base_url=stack.base_url, reduced_motion="reduce", locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(STEP_MS)
    page = context.new_page()
    if account:
        sign_in(page, account, password)
    return page


def settled(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    if page.locator(".hr-chart").count():
        page.locator(".hr-chart svg").first.wait_for()


def pictures(page: Page, shot: Shot, folder: Path) -> Iterator[Path]:
    """At both widths in both schemes, and with each of its dialogs open. Part of the demonstration's pages is not there in
    every Headroom; those are left out."""
    answer = page.goto(shot.path)
    if answer is None or answer.status != expected(shot.account, shot.path):
        return
    settled(page)
    dialogs = page.eval_on_selector_all("dialog[id]", "all => all.map((d) => d.id)")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.wait_for_timeout(SETTLES_MS)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
            page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
            file = folder / shot.name(width, scheme)
            page.screenshot(path=file, full_page=True)
            yield file
            for dialog in dialogs:
                page.evaluate("id => document.getElementById(id).showModal()", dialog)
                open_ = file.with_stem(f"{file.stem}-dialog-{dialog}")
                page.screenshot(path=open_)
                page.evaluate("id => document.getElementById(id).close()", dialog)
                yield open_


def shoot(
    browser: Browser, stack: Stack, kinds: Mapping[str, list[str]], folder: Path, *, follow: bool
) -> Iterator[Path]:
    """Takes all pictures, `follow`: of what the operator's pages lead to too; yields the file of each."""
    passwords = read_passwords(stack.home / "demo-accounts.txt")
    for account, paths in kinds.items():
        page = visitor(browser, stack, account, passwords.get(account, ""))
        more = list(linked(page, paths)) if follow and account == "operator" else []
        for path in dict.fromkeys([*paths, *more]):
            yield from pictures(page, Shot(account, path), folder)
        page.context.close()


def renew(browser: Browser, stack: Stack, password: str, target: Path) -> None:
    """The first screen of the first grid's result, as the README shows it."""
    page = visitor(browser, stack, "operator", password)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/grids/1/")
    settled(page)
    target.parent.mkdir(exist_ok=True)
    page.screenshot(path=target, clip={"x": 0, "y": 0, "width": 1440, "height": 1000}, full_page=True)
    page.context.close()


def made(home: Path, module: str, **fields: str) -> Path:
    """A folder with what this module makes up, once."""
    if not (home / PAGES_FILE).exists():
        shutil.rmtree(home, ignore_errors=True)
        env = {**os.environ, **fields, "HEADROOM_VAR": str(home)}
        subprocess.run([sys.executable, "-m", module], cwd=ROOT, env=env, check=True)
    return home


@contextlib.contextmanager
def awake(home: Path) -> Iterator[None]:
    """Of the office, whose workers are made up like all of it: they call while its pictures are taken."""
    command = [sys.executable, "-m", "scripts.office", "--awake"]
    calls = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "HEADROOM_VAR": str(home)})
    try:
        yield
    finally:
        calls.terminate()
        calls.wait()


def sources() -> dict[str, tuple[Path, dict[str, list[str]]]]:
    """Folder of pictures to the data that they show: the office, all states, what was demonstrated where it was."""
    office = made(ROOT / "var" / "pictures-office", "scripts.office")
    home = made(ROOT / "var" / "pictures-states", "scripts.big_house", **SMALL)
    found = {
        "office": (office, of_office(json.loads((office / PAGES_FILE).read_text()))),
        "states": (home, of_states(json.loads((home / PAGES_FILE).read_text()))),
    }
    for name in ("demo", "example"):
        if read_passwords(ROOT / "var" / name / "demo-accounts.txt"):
            found[name] = (ROOT / "var" / name, of_demonstration())
    return found


def main() -> int:
    end_on_signals()
    folder = ROOT / "var" / "pictures"
    if not (ROOT / "var" / "demo" / "demo-accounts.txt").exists():
        print(
            "headroom: no demonstration to show yet: `make demo` makes one; the states are drawn without it", flush=True
        )
    shutil.rmtree(folder, ignore_errors=True)
    taken = 0
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            for name, (home, kinds) in sources().items():
                (folder / name).mkdir(parents=True)
                with Stack(home, free_port()) as stack:
                    prepare(stack)
                    stack.start_web()
                    if name == "demo" and "--readme" in sys.argv:
                        password = read_passwords(home / "demo-accounts.txt")["operator"]
                        renew(browser, stack, password, ROOT / "docs" / "picture.png")
                    with awake(home) if name == "office" else contextlib.nullcontext():
                        taken += sum(1 for _ in shoot(browser, stack, kinds, folder / name, follow=name != "office"))
            browser.close()
    except (StackError, subprocess.CalledProcessError) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    print(f"{taken} pictures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
