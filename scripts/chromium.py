"""Debian's Chromium under Playwright, for the browser tests and the pictures. It is kept from calling out by itself."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, Playwright

EXECUTABLE = "/usr/bin/chromium"
QUIET = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STEP_MS = 20_000  # the longest that any single step may take on a busy machine
WIDTHS = {1440: 900, 390: 844}  # width and height of the window, in CSS pixels


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=EXECUTABLE, headless=True, args=QUIET, timeout=60_000)


def sign_in(page: Page, username: str, password: str) -> None:
    page.goto("/login/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/login" not in url)
