"""A person at a browser, and what is claimed of every page they see: quiet console, no outside request, no sideways
scroll, no violation that axe finds."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from scripts.chromium import STEP_MS, WIDTHS, sign_in

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SEEN_RULES = ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"]
"""Those that depend on width and colours; the others ask what is written, which is the same in each of them."""
RUN_AXE = """async ([type, values, within]) => {
  const found = await axe.run(within || document, {runOnly: {type, values}, resultTypes: ['violations']});
  const where = (v) => v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(' | ');
  return found.violations.map((v) => `${v.id} (${v.impact}): ${v.help}: ${where(v)}`);
}"""
UNFOLD = """() => {
  const folded = document.querySelectorAll('main details:not([open])');
  folded.forEach((d) => { d.open = true; });
  return folded.length;
}"""
FITS = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
SETTLE_MS = 3_000
TOO_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const right = (e) => Math.round(e.getBoundingClientRect().right);
  const beyond = [...document.querySelectorAll('body *')].filter((e) => right(e) > room + 1);
  const named = beyond.map((e) => `${e.tagName.toLowerCase()}.${e.className} reaches ${right(e)} of ${room} px`);
  return named.length ? named.slice(0, 5) : ['the page is wider than its window'];
}"""


class Person:
    """One account in a browser window of its own. `look` states the claims about the page that is open."""

    def __init__(
        self, browser: Browser, origin: str, account: str, password: str, *, width: int = 1440, scripts: bool = True
    ) -> None:
        self.account, self.password, self.origin, self.scripts = account, password, origin, scripts
        self.faults: list[str] = []
        self.seen: list[str] = []
        self.context = browser.new_context(
            base_url=origin,
            viewport={"width": width, "height": WIDTHS[width]},
            java_script_enabled=scripts,
            accept_downloads=True,
            locale="en-GB",
            timezone_id="UTC",
            reduced_motion="reduce",
        )
        self.context.set_default_timeout(STEP_MS)
        self.context.set_default_navigation_timeout(STEP_MS)
        self.context.on("console", self._console)
        self.context.on("weberror", lambda error: self.faults.append(f"{account}: uncaught {error.error}"))
        self.context.on("request", self._request)
        self.context.on("response", self._response)
        self.page: Page = self.context.new_page()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self.faults.append(f"{self.page.url}: console {message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob", "about"} and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.faults.append(f"{self.page.url}: asked {request.url}, outside of {self.origin}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.faults.append(f"{response.url} answered {response.status}")

    def sign_in(self) -> Person:
        sign_in(self.page, self.account, self.password)
        return self

    def go(self, path: str) -> Page:
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.status == 200, f"{self.account} got {answer.status} at {path}"
        self.look()
        return self.page

    def look(self) -> None:
        """Notes what is wrong with the page as it stands now; the test ends with `assert not person.faults()`."""
        self.page.wait_for_load_state("load")
        path = urlsplit(self.page.url).path
        self.seen.append(path)
        self.fits()
        if self.scripts:
            self.ask_axe("tag", RULES)

    def fits(self, state: str = "") -> None:
        """A chart takes its new width a moment after its window did."""
        if self.page.evaluate(TOO_WIDE):
            with contextlib.suppress(PlaywrightTimeout):
                self.page.wait_for_function(FITS, timeout=SETTLE_MS)
        self.faults += [f"{self.path()}{state} scrolls sideways: {what}" for what in self.page.evaluate(TOO_WIDE)]

    def ask_axe(self, kind: str, rules: Sequence[str], state: str = "", within: str = "") -> None:
        if self.page.evaluate("typeof axe === 'undefined'"):
            self.page.evaluate(AXE)
        path, found = self.path(), self.page.evaluate(RUN_AXE, [kind, list(rules), within])
        self.faults += [f"{path} as {self.account}{state}: {what}" for what in found]

    def look_every_way(self) -> None:
        """It fits at both widths in both schemes, folded and unfolded. axe reads everything once, unfolded; what depends on
        width and colours it asks again on the telephone in the dark; and each dialog it reads open."""
        for width, scheme in itertools.product(WIDTHS, ("light", "dark")):
            self.page.set_viewport_size({"width": width, "height": WIDTHS[width]})
            self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            self.fits(f" at {width} px, {scheme}")
            if (width, scheme) == (1440, "light"):
                if self.page.evaluate(UNFOLD):
                    self.fits(f" at {width} px, unfolded")
                self.ask_axe("tag", RULES, f" at {width} px, {scheme}")
        self.ask_axe("rule", SEEN_RULES, " at 390 px, dark")
        for dialog in self.page.eval_on_selector_all("dialog[id]", "all => all.map((d) => d.id)"):
            self.page.evaluate("id => document.getElementById(id).showModal()", dialog)
            self.ask_axe("tag", RULES, f", dialog {dialog} open", within=f"dialog#{dialog}")
            self.page.evaluate("id => document.getElementById(id).close()", dialog)

    def fill(self, **values: str | list[str] | bool) -> None:
        """By field name: text, the option whose words begin so, the chosen boxes, or one box on or off."""
        for name, value in values.items():
            self.field(name.replace("__", "-"), value)

    def field(self, name: str, value: str | list[str] | bool) -> None:
        fields = self.page.locator(f'main [name="{name}"]:not([type="hidden"])')
        kind = fields.first.evaluate("e => e.type")
        if kind == "select-one":
            wanted = fields.locator("option").filter(has_text=re.compile(rf"^\s*{re.escape(str(value))}"))
            fields.select_option(value=wanted.first.get_attribute("value"))
        elif kind == "radio":
            self.page.locator(f'main [name="{name}"][value="{value}"]').check()
        elif kind == "checkbox" and isinstance(value, list):
            for box in fields.all():
                box.set_checked(box.get_attribute("value") in value)
        elif kind == "checkbox":
            fields.set_checked(bool(value))
        else:
            fields.fill(str(value))

    def press(self, button: str) -> None:
        """Presses a button of the page's main part that sends a form, and looks at what comes; errors are faults."""
        with self.page.expect_navigation(wait_until="load"):
            self.page.get_by_role("main").get_by_role("button", name=button, exact=True).click()
        self.look()
        errors = self.page.locator("main .errorlist, main .hr-note-bad:not([data-advice])").all_inner_texts()
        self.faults += [f"{self.path()} after {button}: {error}" for error in errors]

    def path(self) -> str:
        return urlsplit(self.page.url).path

    def close(self) -> None:
        self.context.close()


class People:
    """`people("operator", width=390)` is signed in; `people("")` is nobody."""

    def __init__(self, browser: Browser, origin: str, passwords: Mapping[str, str]) -> None:
        self._browser, self._origin, self._passwords = browser, origin, passwords
        self.made: list[Person] = []

    def __call__(self, account: str, *, width: int = 1440, scripts: bool = True) -> Person:
        password = self._passwords.get(account, "")
        one = Person(self._browser, self._origin, account, password, width=width, scripts=scripts)
        self.made.append(one)
        return one.sign_in() if account else one

    def faults(self) -> list[str]:
        """Everything that was wrong on any page that anybody of them saw, each once."""
        return list(dict.fromkeys(fault for one in self.made for fault in one.faults))

    def close(self) -> None:
        for one in self.made:
            one.close()
