"""Whether a cell may run now: the authorisation, its window and what is left of its ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from benchmarks import enrolling, host_file, signing
from benchmarks.models import Attempt, Authorization, Cell, Grid
from benchmarks.queries import MIXED, in_flight_of, live_authorization, most_cells, plan_changed, terms
from benchmarks.records import probes, signatures
from benchmarks.records.mode_words import setting_words
from benchmarks.records.modes import Mode, in_flight


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one cell, with what the authorisation still allows. Times are seconds."""

    authorization: Authorization
    requests_left: int
    tokens_left: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a cell may not run. `final` is false when waiting helps: the authorised time has not begun."""

    reason: str
    final: bool


def permit(grid: Grid, *, setting: int, at: datetime, cell: Cell | None = None) -> Permit | Refusal:
    """Checks the live authorisation of a grid for load at `setting`, or for a `cell` of it, at that time."""
    leave = live_authorization(grid)
    if leave is None:
        return Refusal("Nobody has authorised this grid, or the authorisation was revoked.", final=True)
    refused = _bound(grid, leave) or _of_the_plan(grid, cell) or _in_time(leave, at)
    refused = refused or _concurrency(grid, leave, setting, cell)
    return refused or _what_is_left(grid, leave, at)


def worker_permit(grid: Grid, cell: Cell, *, at: datetime) -> Permit | Refusal:
    """The same for a cell, and whether this very worker may act on it: nothing the database says is taken on trust."""
    answer = permit(grid, setting=cell.setting, at=at, cell=cell)
    if isinstance(answer, Refusal):
        return answer
    return vouched(grid, answer.authorization) or answer


def vouched(grid: Grid, leave: Authorization) -> Refusal | None:
    """Why this worker may not act on an authorisation: the host does not trust the worker, or the web whose key the worker
    pinned did not sign exactly this. None when it may."""
    if refused := enrolling.refusal(grid.hardware):
        return Refusal(refused, final=True)
    if not leave.signature:
        return Refusal(f"Authorisation {leave} is not signed. {_AGAIN}", final=True)
    pinned = signing.pinned_web_key(grid.hardware.slug)
    if leave.signed_by != signatures.fingerprint(pinned):
        return Refusal(
            f"Authorisation {leave} was signed by key {leave.signed_by[:12]}, and this host trusts "
            f"{signatures.fingerprint(pinned)[:12]}. Authorise the grid on the server that the host knows, or enrol the "
            "worker again.",
            final=True,
        )
    leave.grid = grid
    if not signatures.holds(pinned, signatures.AUTHORIZATION, signing.facts_of_authorization(leave), leave.signature):
        return Refusal(f"Authorisation {leave}, its grid or its host is not what was signed. {_AGAIN}", final=True)
    return None


_AGAIN = "Revoke it and authorise the grid again."


def in_force(leave: Authorization, at: datetime) -> bool:
    return leave.revoked_at is None and leave.valid_from <= at < leave.valid_until


def target_refusal(*addresses: str) -> str | None:
    """Why this worker may not call one of these addresses; None when all are on the host's own list or empty."""
    try:
        listed = host_file.read()
    except host_file.HostFileError as error:
        return str(error)
    for address in filter(None, addresses):
        if not host_file.allows(listed, address):
            return (
                f"{address} is not on this worker's list of targets. "
                f"The host's operator can add it in {listed.path}, or without that file with HEADROOM_TARGET_HOSTS."
            )
    return None


def key_refusal(name: str, address: str) -> str | None:
    """Why this worker may not send the API key of that name to the address; None when the host lends it for that, or none
    is named."""
    if not name:
        return None
    try:
        listed = host_file.read()
    except host_file.HostFileError as error:
        return str(error)
    if not host_file.allows_key(listed, name):
        return (
            f"The API key \"{name}\" is not on this worker's list. The host's operator can add it to api_keys in "
            f"{listed.path}, and its value as {host_file.key_variable(name)}."
        )
    if not host_file.key_may_go(listed, name, address):
        return (
            f'The API key "{name}" may not be sent to {address}. The host\'s operator can bind it to that target in '
            f'{listed.path}: write {{ name = "{name}", targets = [...] }} in api_keys; a bare name goes to loopback alone.'
        )
    return None


def _bound(grid: Grid, leave: Authorization) -> Refusal | None:
    if leave.grid_digest != grid.digest or plan_changed(grid):
        return Refusal(
            f"The plan changed after authorisation {leave} was given, or what is declared of its host.", final=True
        )
    if leave.target != grid.runtime.endpoint:
        return Refusal(
            f"Authorisation {leave} is for {leave.target}, the runtime is at {grid.runtime.endpoint}.", final=True
        )
    return None


def _of_the_plan(grid: Grid, cell: Cell | None) -> Refusal | None:
    """A cell's row is not signed, the lists of its grid are, by the plan's digest: what they do not hold is not run."""
    if cell is None or _is_drawn(grid, cell):
        return None
    return Refusal(
        f"Cell {cell.name} is none of the authorised plan: its setting, class, repeat, probe or host is not what the grid "
        "was drawn with. Stop the grid and draw it again.",
        final=True,
    )


def _is_drawn(grid: Grid, cell: Cell) -> bool:
    searched = grid.mode == Mode.SEARCH
    lowest, highest = min(grid.setting_values), max(grid.setting_values)
    setting = lowest <= cell.setting <= highest if searched else cell.setting in grid.setting_values
    if cell.hardware_id != grid.hardware_id or not setting:
        return False
    if cell.probe:
        return cell.class_name == MIXED and (cell.probe, cell.repeat) in probes.numbered(grid.probes)
    # A search counts its repeats on where it measures a setting again, up to its budget of cells.
    repeats = most_cells(grid, grid.repeats) if searched else grid.repeats
    return cell.class_name in grid.class_names and 1 <= cell.repeat <= repeats


def _in_time(leave: Authorization, at: datetime) -> Refusal | None:
    if at < leave.valid_from:
        return Refusal(f"Authorisation {leave} begins at {leave.valid_from:%Y-%m-%d %H:%M} UTC.", final=False)
    if at >= leave.valid_until:
        return Refusal(f"Authorisation {leave} ended at {leave.valid_until:%Y-%m-%d %H:%M} UTC.", final=True)
    return None


def _concurrency(grid: Grid, leave: Authorization, setting: int, cell: Cell | None) -> Refusal | None:
    try:
        most = in_flight_of(cell) if cell else in_flight(terms(grid), setting)
    except ValueError as error:
        return Refusal(str(error), final=True)
    if most > leave.max_concurrency:
        said = "" if grid.mode in (Mode.CLOSED, Mode.SEARCH) else f", with {setting_words(grid.mode, setting)}"
        return Refusal(
            f"Authorisation {leave} allows {leave.max_concurrency} at a time, the cell offers {most}{said}.", final=True
        )
    return None


def _what_is_left(grid: Grid, leave: Authorization, at: datetime) -> Permit | Refusal:
    requests, tokens = _spent(grid, leave)
    minutes_left = leave.max_minutes - _minutes_used(leave)
    requests_left, tokens_left = leave.max_requests - requests, leave.max_tokens - tokens
    if requests_left <= 0:
        return Refusal(f"Authorisation {leave} allows {leave.max_requests} requests, all sent.", final=True)
    if tokens_left <= 0:
        return Refusal(f"Authorisation {leave} allows {leave.max_tokens} tokens, all used.", final=True)
    if minutes_left <= 0:
        return Refusal(f"Authorisation {leave} allows {leave.max_minutes:g} minutes, all used.", final=True)
    return Permit(leave, requests_left, tokens_left, min(minutes_left * 60, (leave.valid_until - at).total_seconds()))


@dataclass(frozen=True, slots=True)
class Used:
    """What has been sent under an authorisation so far, interrupted attempts included."""

    requests: int
    tokens: int
    minutes: float


def used(leave: Authorization) -> Used:
    requests, tokens = _spent(leave.grid, leave)
    return Used(requests, tokens, _minutes_used(leave))


def _spent(grid: Grid, leave: Authorization) -> tuple[int, int]:
    """Requests and tokens of every attempt since the authorisation, interrupted ones included; also of one that began before
    it by a host's clock that is slow."""
    under_it = Attempt.objects.filter(authorization=leave).values("cell_id")
    since = Q(started_at__gte=leave.authorized_at) | Q(pk__in=under_it)
    rows = Cell.objects.filter(since, grid=grid).values_list("progress", flat=True)
    spent = [progress.get("spent", {}) for progress in rows]
    return sum(int(s.get("requests", 0)) for s in spent), sum(int(s.get("tokens", 0)) for s in spent)


def _minutes_used(leave: Authorization) -> float:
    """A clock that was set back during an attempt gives nothing back: the attempt counts as none."""
    attempts = Attempt.objects.filter(authorization=leave, ended_at__isnull=False).values_list("started_at", "ended_at")
    return sum(max(0.0, (ended - started).total_seconds()) for started, ended in attempts if ended) / 60
