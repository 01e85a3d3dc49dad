"""People who browse, for `make soak`: each polls the live page and opens another page now and then, until SIGINT.

    python -m scripts.crowd URL FOLDER PEOPLE GRID TALLY

Says `ready` once all accounts have signed in; people share the sessions of the demonstration's accounts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from capacity.management.accounts import read_passwords
from scripts.pages import Visitor

ACCOUNTS = ("operator", "viewer", "approver", "host-owner", "signer")
POLL_S, LOOK_S = 2.0, (4.0, 12.0)
PAGES = (
    "/",
    "/grids/",
    "/grids/{grid}/",
    "/approvals/",
    "/audit/",
    "/docs/",
    "/hosts/",
    "/authorisations/",
    "/statements/",
)


@dataclass
class Tally:
    polls: int = 0
    unchanged: int = 0
    pages: int = 0
    failed: int = 0

    def words(self) -> str:
        share = f"{self.unchanged / self.polls:.0%}" if self.polls else "none"
        return f"{self.polls} polls, {share} of them unchanged (304), {self.pages} pages, {self.failed} failed"


async def poll(client: httpx.AsyncClient, path: str, tally: Tally) -> None:
    tag = ""
    while True:
        answer = await client.get(path, headers={"HX-Request": "true", **({"HX-PTag": tag} if tag else {})})
        tally.polls += 1
        tally.unchanged += answer.status_code == 304
        tally.failed += answer.status_code not in (200, 286, 304)
        tag = answer.headers.get("HX-PTag", tag)
        await asyncio.sleep(POLL_S)


async def browse(client: httpx.AsyncClient, grid: int, tally: Tally, dice: random.Random) -> None:
    while True:
        await asyncio.sleep(dice.uniform(*LOOK_S))
        answer = await client.get(dice.choice(PAGES).format(grid=grid))
        tally.pages += 1
        tally.failed += answer.status_code != 200


async def again(one: object, tally: Tally) -> None:
    """A person whose connection failed tries again."""
    while True:
        try:
            await one()  # type: ignore[operator]
        except httpx.HTTPError:
            tally.failed += 1
            await asyncio.sleep(1.0)


async def crowd(url: str, cookies: list[dict[str, str]], people: int, grid: int) -> Tally:
    tally, dice, ended = Tally(), random.Random(1), asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, ended.set)
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, cookies=cookies[n % len(cookies)], timeout=30, trust_env=False)
            )
            for n in range(people)
        ]
        work = [
            asyncio.create_task(again(step, tally))
            for client in clients
            for step in (
                lambda client=client: poll(client, f"/grids/{grid}/live/", tally),
                lambda client=client: browse(client, grid, tally, dice),
            )
        ]
        print("ready", flush=True)
        await ended.wait()
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    return tally


def main() -> int:
    url, folder, people, grid, file = sys.argv[1:]
    passwords = read_passwords(Path(folder) / "demo-accounts.txt")
    cookies = []
    for account in ACCOUNTS[: int(people)]:
        visitor = Visitor(url, account, passwords[account])
        cookies.append(dict(visitor.client.cookies))
        visitor.close()
    tally = asyncio.run(crowd(url, cookies, int(people), int(grid)))
    Path(file).write_text(json.dumps(asdict(tally)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
