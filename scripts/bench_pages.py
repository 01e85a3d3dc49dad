"""`make bench-pages`: what each list and result page costs with 10,000 grids and 1,000,000 requests stored.

    BENCH_N=20 python -m scripts.bench_pages

The data are made once in var/bench-pages (scripts/big_house.py). Server time is that of the whole request inside the
process, every middleware and the database with it, in rounds over all pages, so that a disturbance meets each alike; CPU time
stands beside it, which other programs do not stretch. Bytes are what Debian's Chromium received, headers too, from the real
server on a first and on a second visit. Exit 1 where a limit is missed.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import django
from playwright.sync_api import Browser, sync_playwright

from capacity.management.accounts import read_passwords
from scripts.big_house import PAGES
from scripts.chromium import EXECUTABLE, STEP_MS, launch, sign_in
from scripts.stack import ROOT, Stack, StackError, end_on_signals, free_port

HOME = ROOT / "var" / "bench-pages"
PAGE_MS, POLL_MS = 150.0, 5.0
FIRST_KB, REPEAT_KB = 450.0, 30.0
WARM = 2  # rounds that are not counted: compiled templates, caches, the file system
HTMX = {"HTTP_HX_REQUEST": "true"}


@dataclass(slots=True)
class Visit:
    """One address, its limits, and what was measured of it."""

    name: str
    path: str
    limit_ms: float = PAGE_MS
    result: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    queries: int = 0
    first_kb: float | None = None
    repeat_kb: float | None = None

    def missed(self) -> list[str]:
        found = [f"{self.median:.0f} ms, over {self.limit_ms:g} ms"] if self.median > self.limit_ms else []
        for kb, limit, visit in ((self.first_kb, FIRST_KB, "first"), (self.repeat_kb, REPEAT_KB, "repeat")):
            if self.result and kb is not None and kb > limit:
                found.append(f"{kb:.0f} kB on the {visit} visit, over {limit:g} kB")
        return found

    @property
    def median(self) -> float:
        return statistics.median(self.ms)


def visits(found: Mapping[str, Any]) -> list[Visit]:
    lists = {
        "overview": "/", "grids": "/grids/", "grids, a late page": "/grids/?page=300",
        "grids, filtered": "/grids/?q=Generator&status=measured", "grids, sorted": "/grids/?sort=name",
        "authorisations": "/authorisations/", "approvals": "/approvals/", "statements": "/statements/", "hosts": "/hosts/",
        "runtimes": "/runtimes/", "workloads": "/workloads/", "objectives": "/objectives/", "audit log": "/audit/",
        "audit log, a late page": "/audit/?page=200", "search": "/search/?q=Generator", "new grid": "/grids/new/",
    }  # fmt: skip
    results = {
        "result, one class": f"/grids/{found['small']}/", "result, 36 cells of three classes": f"/grids/{found['rich']}/",
        "result, every request stored": f"/grids/{found['kept']}/",
        "compare": f"/compare/?grid={found['rich']}&grid={found['small']}",
        "approval": f"/approvals/{found['choice']}/", "statement": f"/statements/{found['statement']}/",
    }  # fmt: skip
    cell, live = f"/grids/{found['kept']}/cells/{found['cell']}/", f"/grids/{found['running']}/live/"
    return [
        *(Visit(name, path) for name, path in lists.items()),
        *(Visit(name, path, result=name.startswith("result")) for name, path in results.items()),
        Visit("cell, 10,000 requests", cell),
        Visit("live page", live),
        Visit("live poll, nothing new", live, limit_ms=POLL_MS, headers=HTMX, status=304),
    ]


def house() -> dict[str, Any]:
    """The numbers of the pages; makes the data where they are not there."""
    if not (HOME / PAGES).exists():
        print(f"Making the data in {HOME}, once:", flush=True)
        subprocess.run(["rm", "-rf", str(HOME)], check=True)
        env = {**os.environ, "HEADROOM_VAR": str(HOME)}
        subprocess.run([sys.executable, "-m", "scripts.big_house"], cwd=ROOT, env=env, check=True)
    found: dict[str, Any] = json.loads((HOME / PAGES).read_text())
    return found


def client() -> Any:
    """A signed-in operator, inside this process."""
    from django.contrib.auth.models import User
    from django.test import Client

    made = Client(SERVER_NAME="127.0.0.1", HTTP_ACCEPT_ENCODING="gzip, br", raise_request_exception=True)
    made.force_login(User.objects.get(username="operator"))
    return made


def ask(visitor: Any, visit: Visit, tag: str) -> Any:
    more = {"HTTP_HX_PTAG": tag} if tag else {}
    answer = visitor.get(visit.path, **visit.headers, **more)
    if answer.status_code != visit.status:
        raise StackError(f"{visit.path} answered {answer.status_code} instead of {visit.status}")
    return answer


def tag_of(visitor: Any, visit: Visit) -> str:
    """What the page was tagged with a moment ago, of a visit that finds nothing new."""
    return str(visitor.get(visit.path, **visit.headers).headers.get("HX-PTag", "")) if visit.status == 304 else ""


def measure(found: list[Visit], rounds: int) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    visitor = client()
    for number in range(WARM + rounds):
        for visit in found:
            tag = tag_of(visitor, visit)
            began, cpu = time.perf_counter(), time.process_time()
            ask(visitor, visit, tag)
            if number >= WARM:
                visit.ms.append((time.perf_counter() - began) * 1000)
                visit.cpu_ms.append((time.process_time() - cpu) * 1000)
    for visit in found:
        tag = tag_of(visitor, visit)
        with CaptureQueriesContext(connection) as asked:
            ask(visitor, visit, tag)
        visit.queries = len(asked)


def received(browser: Browser, origin: str, state: Any, path: str) -> tuple[float, float]:
    """kB that came over the wire on a first visit and on a second one."""
    context = browser.new_context(base_url=origin, storage_state=state)
    context.set_default_timeout(STEP_MS)
    page, got = context.new_page(), [0.0]
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")

    def count(said: Mapping[str, Any]) -> None:
        got[0] += said["encodedDataLength"] / 1000

    wire.on("Network.loadingFinished", count)
    sums = []
    for _ in range(2):
        got[0] = 0.0
        page.goto(path)
        page.wait_for_load_state("networkidle")
        sums.append(got[0])
        page.goto("about:blank")
    context.close()
    return sums[0], sums[1]


def weigh(found: list[Visit]) -> None:
    password = read_passwords(HOME / "demo-accounts.txt")["operator"]
    with Stack(HOME, free_port()) as stack, sync_playwright() as playwright:
        stack.start_web()
        browser = launch(playwright)
        first = browser.new_context(base_url=stack.base_url)
        first.set_default_timeout(STEP_MS)
        sign_in(first.new_page(), "operator", password)
        state = first.storage_state()
        first.close()
        for visit in found:
            if not visit.headers:
                visit.first_kb, visit.repeat_kb = received(browser, stack.base_url, state, visit.path)
        browser.close()


def line(visit: Visit) -> str:
    ordered = sorted(visit.ms)
    p95 = ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)]
    kb = [("-" if v is None else f"{v:.0f}") for v in (visit.first_kb, visit.repeat_kb)]
    cpu = statistics.median(visit.cpu_ms)
    told = f"MISSED: {'; '.join(missed)}" if (missed := visit.missed()) else "holds"
    return (
        f"{visit.name:<34} {len(ordered):>3} {visit.median:>8.1f} {p95:>8.1f} {cpu:>8.1f} {visit.limit_ms:>6g} "
        f"{visit.queries:>7} {kb[0]:>6} {kb[1]:>6}  {told}"
    )


HEAD = f"{'page':<34} {'n':>3} {'ms p50':>8} {'ms p95':>8} {'CPU p50':>8} {'limit':>6} {'queries':>7} {'kB 1st':>6} {'kB 2nd':>6}"


def rounds_of() -> int:
    return max(int(os.environ.get("BENCH_N") or 20), 1)


def timed(step: Callable[[], None], what: str) -> None:
    began = time.monotonic()
    step()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    end_on_signals()
    try:
        numbers = house()
        os.environ["HEADROOM_VAR"] = str(HOME)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")
        django.setup()
        found = visits(numbers)
        timed(functools.partial(measure, found, rounds_of()), "server times measured")
        if Path(EXECUTABLE).exists():
            timed(functools.partial(weigh, found), "bytes weighed")
        else:
            print(f"no {EXECUTABLE} here: bytes are not weighed")
    except (StackError, subprocess.CalledProcessError) as error:
        print(f"headroom: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nEnded; the data that are made stay.")
        return 130
    print(f"{numbers['grids']:,} grids, {numbers['requests']:,} requests, {numbers['parquet']:,} of them as Parquet")
    print(HEAD)
    print("\n".join(line(visit) for visit in found))
    missed = [visit.name for visit in found if visit.missed()]
    print(f"Missed: {', '.join(missed) or 'none'}. Result pages: at most {FIRST_KB:g} kB, then {REPEAT_KB:g} kB.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
