"""A visitor of the pages without a browser: signs in, reads forms, fills them in and sends them, as a person would."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx

VOID = {"input", "br", "img", "hr", "meta", "link", "wbr"}


class PageError(Exception):
    """A page answered something else than expected; the message quotes what it said."""


@dataclass(slots=True)
class Form:
    action: str
    method: str = "get"
    fields: dict[str, list[str]] = field(default_factory=dict)
    buttons: dict[str, str] = field(default_factory=dict)
    options: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def has(self, names: set[str]) -> bool:
        return names <= (self.fields.keys() | self.options.keys() | self.buttons.keys())


@dataclass(slots=True)
class Page:
    url: str
    status: int
    text: str
    forms: list[Form]
    errors: list[str]
    refusals: list[str]

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    def words(self) -> str:
        """The text a person reads, white space folded."""
        bare = re.sub(r"<(script|style)\b.*?</\1>", " ", self.text, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", bare)).split())

    def form(self, *names: str, action: str = "") -> Form:
        """The first form sent by POST that has these fields and whose address contains `action`."""
        for form in self.forms:
            if form.method == "post" and form.has(set(names)) and action in form.action:
                return form
        seen = [f"{f.action}: {sorted(f.fields.keys() | f.options.keys())}" for f in self.forms]
        raise PageError(f"{self.path} has no form with {sorted(names)} for {action or 'any address'}; it has {seen}")


class _Reader(HTMLParser):
    """Collects forms with the values they would be sent with, and what is marked as an error."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.forms = url, []  # type: ignore[var-annotated]
        self.errors: list[str] = []
        self.refusals: list[str] = []
        self._form: Form | None = None
        self._select = self._textarea = ""
        self._option: str | None = None
        self._depth, self._words = 0, []  # type: ignore[var-annotated]
        self._into: list[str] = self.errors
        self._messages = False

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        a = {name: value or "" for name, value in attrs}
        marked = set(a.get("class", "").split())
        self._messages = "hr-msgs" in marked or (self._messages and tag not in {"h1", "section", "form", "header"})
        if not self._depth and ("errorlist" in marked or (self._messages and "hr-note-bad" in marked)):
            self._into = self.refusals if self._messages else self.errors
            self._depth = 1
        elif self._depth:
            self._depth += tag not in VOID
        if tag == "form":
            self._form = Form(urljoin(self.url, a.get("action") or self.url), a.get("method", "get").lower())
            self.forms.append(self._form)
        if self._form is None:
            return
        if tag == "input" and "name" in a and "disabled" not in a:
            self._input(self._form, a)
        elif tag == "button" and "name" in a:
            self._form.buttons[a["name"]] = a.get("value", "")
        elif tag == "select" and "name" in a:
            self._select = a["name"]
            self._form.options[self._select] = []
            self._form.fields.setdefault(self._select, [])
        elif tag == "option" and self._select:
            self._option = a.get("value", "")
            if "selected" in a:
                self._form.fields[self._select].append(self._option)
        elif tag == "textarea" and "name" in a:
            self._textarea = a["name"]
            self._form.fields[self._textarea] = [""]

    @staticmethod
    def _input(form: Form, a: dict[str, str]) -> None:
        kind = a.get("type", "text")
        if kind in {"checkbox", "radio"}:
            form.options.setdefault(a["name"], []).append((a.get("value", "on"), ""))
            if "checked" in a:
                form.fields.setdefault(a["name"], []).append(a.get("value", "on"))
        elif kind == "submit":
            form.buttons[a["name"]] = a.get("value", "")
        elif kind != "file":
            form.fields.setdefault(a["name"], []).append(a.get("value", ""))

    def handle_data(self, data: str) -> None:
        if self._depth and data.strip():
            self._words.append(data.strip())
        if self._form and self._textarea:
            self._form.fields[self._textarea][0] += data
        elif self._form and self._select and self._option is not None:
            self._form.options[self._select].append((self._option, data.strip()))
            self._option = None

    def handle_endtag(self, tag: str) -> None:
        if self._depth:
            self._depth -= 1
            if not self._depth and self._words:
                self._into.append(" ".join(self._words))
                self._words = []
        if tag == "form":
            self._form = None
        elif tag == "select" and self._form and self._select:
            chosen, options = self._form.fields[self._select], self._form.options[self._select]
            if not chosen and options:
                chosen.append(options[0][0])
            self._select = ""
        elif tag == "textarea":
            self._textarea = ""


def read(response: httpx.Response) -> Page:
    reader = _Reader(str(response.url))
    text = response.text if "html" in response.headers.get("content-type", "") else ""
    reader.feed(text)
    return Page(
        str(response.url), response.status_code, text or response.text, reader.forms, reader.errors, reader.refusals
    )


class Visitor:
    """One signed-in person. Every method raises PageError with the page's own words when it is refused."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self.username, self.password = username, password
        self.client = httpx.Client(
            base_url=base_url,
            follow_redirects=True,
            timeout=60,
            headers={"Referer": base_url + "/"},
            # A connection kept for seconds may be closed by the server in the moment it is used again.
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        page = self.get("/login/")
        page = self.send(page, {"username": username, "password": password})
        if page.path.startswith("/login"):
            raise PageError(f"{username} could not sign in: {page.errors or page.words()[:300]}")

    def get(self, path: str) -> Page:
        page = read(self.client.get(path))
        if page.status != 200:
            raise PageError(f"{self.username} asked for {path} and got {page.status}: {page.words()[:300]}")
        return page

    def download(self, path: str) -> bytes:
        response = self.client.get(path)
        if response.status_code != 200:
            raise PageError(f"{self.username} asked for {path} and got {response.status_code}")
        return response.content

    def send(
        self,
        page: Page,
        values: Mapping[str, str | list[str]],
        *,
        action: str = "",
        extra: Mapping[str, str] | None = None,
    ) -> Page:
        """Fills the form that has these fields and sends it; `extra` goes with it without being looked for.

        `extra` is for a row that a script would have added to the page, and for the button that is pressed.
        """
        form = page.form(*values, action=action)
        data = {name: list(value) for name, value in form.fields.items()}
        data |= {name: value if isinstance(value, list) else [value] for name, value in values.items()}
        data |= {name: [value] for name, value in (extra or {}).items()}
        answer = read(self.client.post(form.action, data=data, headers={"Referer": page.url}))
        stayed = answer.path == urlsplit(form.action).path
        if answer.status >= 400 or (answer.errors and stayed) or answer.refusals:
            said = "; ".join([*answer.refusals, *answer.errors]) or answer.words()[:400]
            raise PageError(f"{self.username} sent {urlsplit(form.action).path} and got {answer.status}: {said}")
        return answer

    def close(self) -> None:
        self.client.close()
