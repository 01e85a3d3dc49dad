"""One address of every kind of page, and whose eyes it is for: for the pictures and for the tests in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

from playwright.sync_api import Page

from scripts.big_house import NEWCOMER

NOBODY = ""
PAGES: dict[str, list[str]] = {
    NOBODY: ["/login/", "/v/", "/no/such/page/"],
    "operator": [
        "/", "/search/?q=host", "/hosts/", "/hosts/new/", "/runtimes/", "/runtimes/new/", "/workloads/", "/workloads/new/",
        "/workloads/import/", "/objectives/", "/objectives/new/", "/grids/", "/grids/new/", "/compare/", "/authorisations/",
        "/approvals/", "/statements/", "/audit/", "/docs/",
    ],
}  # fmt: skip
"""Account to the pages that are there in every Headroom. Lists lead on to the detail pages."""
KINDS = (
    r"/hosts/(?!new/)[\w-]+/", r"/hosts/[\w-]+/edit/", r"/hosts/[\w-]+/enrol/", r"/runtimes/[\w-]+/\d+/",
    r"/runtimes/[\w-]+/\d+/edit/", r"/workloads/[\w-]+/\d+/", r"/workloads/[\w-]+/\d+/edit/",
    r"/workloads/[\w-]+/\d+/modes/", r"/grids/new/\?workload=\d+&mode=\w+", r"/imports/[\w/-]+",
    r"/objectives/[\w-]+/\d+/", r"/objectives/[\w-]+/\d+/edit/",
    r"/grids/\d+/", r"/grids/\d+/live/", r"/grids/\d+/propose/", r"/grids/\d+/confirm/", r"/grids/\d+/cells/\d+/",
    r"/grids/\d+/quality/", r"/authorisations/\d+/", r"/approvals/\d+/", r"/statements/[\w-]+/", r"/v/[\w-]+/\w+/",
    r"/docs/[\w-]+/", r"/docs/cases/[\w-]+/", r"/grids/new/\?from=\d+",
)  # fmt: skip
"""What the lists and the pages behind them link to: one of each kind is enough."""
EMPTY = [
    "/", "/hosts/", "/runtimes/", "/workloads/", "/objectives/", "/grids/", "/grids/new/", "/authorisations/", "/approvals/",
    "/statements/", "/search/?q=nothing", "/compare/",
]  # fmt: skip
ANSWERS = {"/no/such/page/": 404}
"""Pages that answer with something else than 200 because that is what they show."""
FORBIDDEN = "/grids/new/"


def of_demonstration() -> dict[str, list[str]]:
    """Of the Headroom that `make demo` or `make run` has filled."""
    return PAGES | {
        "host-owner": ["/grids/1/authorise/", "/grids/1/conditions/after/"],
        "approver": ["/approvals/1/"],
        "viewer": ["/statements/"],
    }


def of_office(numbers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of the made-up office with GPUs: what people look at daily."""
    running, approved = f"/grids/{numbers['running']}/live/", numbers["approved"]
    pages = [
        "/",
        "/grids/",
        f"/grids/new/?from={approved}",
        running,
        f"/grids/{approved}/",
        f"/grids/{numbers['hot']}/",
    ]
    return {"operator": [*pages, "/approvals/", "/statements/", "/hosts/"]}


def of_states(numbers: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of a Headroom that scripts.big_house has filled: each state of a grid, what is empty, what is forbidden."""
    grid = {state: f"/grids/{number}/" for state, number in numbers.items()}
    return PAGES | {
        "operator": [
            *PAGES["operator"], grid["rich"], grid["kept"], f"{grid['kept']}cells/{numbers['cell']}/", grid["failing"],
            grid["draft"], grid["stopped"], grid["paused"], grid["running"], f"{grid['draft']}live/", f"{grid['running']}live/",
            f"{grid['paused']}live/", f"{grid['stopped']}live/", f"{grid['failing']}propose/", f"{grid['small']}confirm/",
            f"/compare/?grid={numbers['rich']}&grid={numbers['small']}", f"/compare/?grid={numbers['rich']}",
        ],
        "host-owner": [f"{grid['draft']}authorise/", f"{grid['kept']}conditions/after/"],
        "approver": [f"/approvals/{numbers['choice'] + 3}/"],
        "signer": [f"/approvals/{numbers['choice']}/"],
        "viewer": [FORBIDDEN, f"/statements/{numbers['statement']}/"],
        NEWCOMER: EMPTY,
    }  # fmt: skip


def expected(account: str, path: str) -> int:
    """The status that the page answers with."""
    return 403 if account == "viewer" and path == FORBIDDEN else ANSWERS.get(path, 200)


def linked(page: Page, first: list[str]) -> Iterator[str]:
    """One address of each kind that `first` and the pages behind link to, as far as it is not in `first` itself. Read as the
    account of this window, without drawing the pages."""
    seen = {kind for path in first for kind in KINDS if re.fullmatch(kind, path)}
    waiting, opened = list(first), set[str]()
    while waiting:
        path = waiting.pop(0)
        if path in opened:
            continue
        opened.add(path)
        for link in re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', page.request.get(path).text().partition("<main")[2]):
            link = unescape(link)
            kind = next((kind for kind in KINDS if re.fullmatch(kind, link)), None)
            if kind is not None and kind not in seen:
                seen.add(kind)
                waiting.append(link)
                yield link
