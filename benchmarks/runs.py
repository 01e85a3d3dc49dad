"""Write verbs of people on grids: authorise, revoke, pause, stop, resume, withdraw. The precondition is in the UPDATE.

Not in scope: running a cell (worker.py), claiming and recording it (claims.py), drawing a grid (drafts.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from benchmarks import audit, claims, searching, signing
from benchmarks.gates import NOT_SAFE
from benchmarks.models import Authorization, Cell, Grid
from benchmarks.permits import Refusal, in_force, permit
from benchmarks.queries import live_authorization, plan_changed

FINISH, DRAIN, CANCEL = HOW = ("finish", "drain", "cancel")
HOW_WORDS = {FINISH: "after the running cell", DRAIN: "running requests may finish", CANCEL: "at once"}
CHANGED = "The plan, its runtime or what is declared of its host changed since the grid was drawn. Draw a new grid."


class RunRefused(ValueError):
    """The verb cannot be done now; the message says why."""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What an authorisation allows at most, over all cells of the grid. Minutes are minutes of load."""

    max_concurrency: int
    max_requests: int
    max_tokens: int
    max_minutes: float
    max_temperature_c: float | None = None
    max_power_w: float | None = None


def authorize(
    *, grid: Grid, by: AbstractBaseUser, valid_from: datetime, valid_until: datetime, ceilings: Ceilings
) -> Authorization:
    """Gives leave to load the host with exactly this plan, and queues its cells. Raises RunRefused with words.

    A stopped grid gets a new authorisation this way, in place of one that ended; resuming it stays a step of its own.
    """
    _may_authorize(grid, by, valid_from, valid_until)
    with transaction.atomic():
        if grid.status == Grid.Status.STOPPED:
            grid.authorizations.filter(revoked_at__isnull=True).update(revoked_at=timezone.now(), revoked_by_id=by.pk)
        else:
            _move(
                grid,
                (Grid.Status.DRAFT,),
                Grid.Status.AUTHORIZED,
                "Somebody has authorised or withdrawn this grid already.",
            )
            grid.cells.filter(status=Cell.Status.PLANNED).update(status=Cell.Status.QUEUED)
        leave = Authorization(
            grid=grid,
            grid_digest=grid.digest,
            requested_by_id=grid.drawn_by_id,
            authorized_by_id=by.pk,
            target=grid.runtime.endpoint,
            valid_from=valid_from,
            valid_until=valid_until,
            max_concurrency=ceilings.max_concurrency,
            max_requests=ceilings.max_requests,
            max_tokens=ceilings.max_tokens,
            max_minutes=ceilings.max_minutes,
            max_temperature_c=ceilings.max_temperature_c,
            max_power_w=ceilings.max_power_w,
        )
        signing.sign_authorization(leave)
        leave.save(force_insert=True)
        audit.record(
            actor=by.get_username(), verb="authorised", subject=f"grid {grid.pk}", team=grid.team, after=grid.digest,
            changes={"authorisation": str(leave), "until": valid_until.isoformat(), "target": leave.target},
        )  # fmt: skip
    grid.refresh_from_db()
    return leave


def revoke(*, authorization: Authorization, by: AbstractBaseUser, reason: str = "") -> None:
    """Takes the leave back. A running cell is cancelled by its worker; a waiting grid is closed at once."""
    grid = authorization.grid
    with transaction.atomic():
        revoked = Authorization.objects.filter(pk=authorization.pk, revoked_at__isnull=True).update(
            revoked_at=timezone.now(), revoked_by_id=by.pk
        )
        if not revoked:
            raise RunRefused("This authorisation was revoked already.")
        audit.record(
            actor=by.get_username(), verb="revoked authorisation", subject=f"grid {grid.pk}", team=grid.team,
            reason=reason, changes={"authorisation": str(authorization)},
        )  # fmt: skip
        said = f"Authorisation {authorization} was revoked by {by.get_username()}"
        _stop(grid, "cancel", f"{said}: {reason}" if reason else f"{said}.")
    authorization.refresh_from_db()


def stop(*, grid: Grid, how: str, by: AbstractBaseUser) -> None:
    """Stops a grid: "finish" lets the running cell end, "drain" only its running requests, "cancel" neither. Finished cells
    are kept."""
    if how not in HOW:
        raise RunRefused(
            "Say whether the cell (finish), its running requests (drain) or nothing (cancel) shall end first."
        )
    with transaction.atomic():
        if not _stop(grid, how, f"Stopped by {by.get_username()}, {HOW_WORDS[how]}."):
            raise RunRefused("This grid is not running, or is being stopped more firmly already.")
        audit.record(actor=by.get_username(), verb=f"stopped ({how})", subject=f"grid {grid.pk}", team=grid.team)
    grid.refresh_from_db()


def pause(*, grid: Grid, by: AbstractBaseUser) -> None:
    """Lets the running cell end and takes no other until somebody goes on. Queued cells stay queued; the authorisation
    goes on to count by the clock, and when it ends the grid is stopped."""
    with transaction.atomic():
        paused = Grid.objects.filter(pk=grid.pk, status__in=Grid.OPEN, stop_requested="", paused_at=None).update(
            paused_at=timezone.now(), paused_by=by.get_username(), progress_version=F("progress_version") + 1
        )
        if not paused:
            raise RunRefused("Only a grid that waits or runs can be paused, and this one is not paused yet.")
        audit.record(actor=by.get_username(), verb="paused", subject=f"grid {grid.pk}", team=grid.team)
    grid.refresh_from_db()


def resume(*, grid: Grid, by: AbstractBaseUser, paused: bool = False) -> None:
    """Goes on with a paused or stopped grid. Of a stopped one, cells that did not run are queued again; those that a gate
    held back are not. `paused`: somebody who saw a pause does not undo a stop that came meanwhile."""
    leave = live_authorization(grid)
    if leave is None or not in_force(leave, timezone.now()):
        raise RunRefused("The authorisation of this grid has ended. A host owner has to authorise it again.")
    if plan_changed(grid):
        raise RunRefused(CHANGED)
    with transaction.atomic():
        if _unpaused(grid):
            audit.record(
                actor=by.get_username(), verb="went on after a pause", subject=f"grid {grid.pk}", team=grid.team
            )
        elif paused:
            raise RunRefused("This grid is no longer paused. Look at it again.")
        else:
            _queue_again(grid, by)
    grid.refresh_from_db()


def withdraw(*, grid: Grid, by: AbstractBaseUser) -> None:
    """Takes back a grid that has not started; its cells do not run."""
    with transaction.atomic():
        _move(
            grid, (Grid.Status.DRAFT, Grid.Status.AUTHORIZED), Grid.Status.WITHDRAWN,
            "Only a grid that has not started can be withdrawn; stop it instead.",
        )  # fmt: skip
        reason = f"Withdrawn by {by.get_username()}."
        grid.cells.exclude(status=Cell.Status.RUNNING).update(status=Cell.Status.NOT_RUN, reason=reason)
        Grid.objects.filter(pk=grid.pk).update(
            stop_reason=reason, finished_at=timezone.now(), paused_at=None, paused_by=""
        )
        grid.authorizations.filter(revoked_at__isnull=True).update(revoked_at=timezone.now(), revoked_by_id=by.pk)
        audit.record(actor=by.get_username(), verb="withdrew", subject=f"grid {grid.pk}", team=grid.team)
    grid.refresh_from_db()


def close_unauthorized(*, at: datetime) -> int:
    """Closes waiting grids whose authorisation ended or is used up; how many. A running cell is left to its worker."""
    closed = 0
    waiting = Grid.objects.filter(status__in=Grid.OPEN).exclude(cells__status=Cell.Status.RUNNING)
    for grid in waiting.select_related("runtime", "workload", "hardware"):
        cell = grid.cells.filter(status=Cell.Status.QUEUED).first()
        answer = permit(grid, setting=cell.setting, at=at, cell=cell) if cell else None
        if isinstance(answer, Refusal) and answer.final:
            closed += claims.close_grid(grid_id=grid.pk, status=Grid.Status.STOPPED, reason=answer.reason)
    return closed


def authorize_refusal(grid: Grid, by: AbstractBaseUser) -> str | None:
    """Why this person cannot authorise this grid, in words; None when they can."""
    if by.pk == grid.drawn_by_id:
        return "You drew this grid. Another host owner has to authorise it."
    if grid.status not in (Grid.Status.DRAFT, Grid.Status.STOPPED):
        return f"This grid is {grid.get_status_display().lower()}; it cannot be authorised now."
    if plan_changed(grid):
        return CHANGED
    return None


def _unpaused(grid: Grid) -> bool:
    open_ones = Grid.objects.filter(pk=grid.pk, status__in=Grid.OPEN, stop_requested="", paused_at__isnull=False)
    return bool(open_ones.update(paused_at=None, paused_by="", progress_version=F("progress_version") + 1))


def _queue_again(grid: Grid, by: AbstractBaseUser) -> None:
    """A stopped grid runs again, with what did not run. Raises RunRefused where it is not stopped, or nothing is left."""
    _move(grid, (Grid.Status.STOPPED,), Grid.Status.RUNNING, "Only a paused or stopped grid can go on.")
    left = grid.cells.filter(Q(status=Cell.Status.NOT_RUN) | Q(status=Cell.Status.INTERRUPTED))
    queued = left.exclude(reason__startswith=NOT_SAFE).update(
        status=Cell.Status.QUEUED, reason="", claimed_by="", heartbeat_at=None, finished_at=None
    )
    Grid.objects.filter(pk=grid.pk).update(stop_reason="", stop_requested="", finished_at=None, answer=None)
    if not queued and not searching.advance(Grid.objects.get(pk=grid.pk)):
        raise RunRefused("No cell is left that may run.")
    audit.record(actor=by.get_username(), verb="resumed", subject=f"grid {grid.pk}", team=grid.team)


def _may_authorize(grid: Grid, by: AbstractBaseUser, valid_from: datetime, valid_until: datetime) -> None:
    if refused := authorize_refusal(grid, by):
        raise RunRefused(refused)
    if valid_until <= valid_from:
        raise RunRefused("The authorisation must end after it begins.")
    if valid_until <= timezone.now():
        raise RunRefused("The authorisation would have ended already.")


def _move(grid: Grid, sources: tuple[str, ...], target: str, refusal: str) -> None:
    moved = Grid.objects.filter(pk=grid.pk, status__in=sources).update(
        status=target, progress_version=F("progress_version") + 1
    )
    if not moved:
        raise RunRefused(refusal)


def _stop(grid: Grid, how: str, reason: str) -> bool:
    """Whether it stops so now: a softer stop does not undo a firmer one that somebody was promised."""
    softer = ("", *HOW[: HOW.index(how) + 1])
    asked = Grid.objects.filter(pk=grid.pk, status__in=Grid.OPEN, stop_requested__in=softer).update(
        stop_requested=how, stop_reason=reason[:300], progress_version=F("progress_version") + 1
    )
    if asked and not grid.cells.filter(status=Cell.Status.RUNNING).exists():
        claims.close_grid(grid_id=grid.pk, status=Grid.Status.STOPPED, reason=reason)
    return bool(asked)
