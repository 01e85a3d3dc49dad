"""What is looked at before a grid is drawn: worker, other grids of the host, the time of day, who may authorise. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from benchmarks.facts import worker_state
from benchmarks.models import Grid, Hardware, Membership, Role, Runtime
from benchmarks.templatetags.headroom import since

OFFICE_FROM, OFFICE_UNTIL, WORKING_DAYS = 8, 18, 5


@dataclass(frozen=True, slots=True)
class Tick:
    """One line of *Before it starts*; `kind` is ok, warn, bad or info. `of_tool`: it is so with every grid of this runtime."""

    kind: str
    text: str
    of_tool: bool = False


def worker(runtime: Runtime) -> Tick:
    host = runtime.hardware
    state, slug = worker_state(host), host.slug
    if state.kind == "ok":
        return Tick(
            "ok", _("Worker on %(host)s is running, seen %(age)s") % {"host": slug, "age": since(host.worker_seen_at)}
        )
    how = _("start it on the host with %(command)s") % {"command": state.command}
    return Tick(
        "warn", _("No worker on %(host)s now: the grid will wait. To run it, %(how)s.") % {"host": slug, "how": how}
    )


def others(host: Hardware) -> list[Tick]:
    """Grids that go first, and what cannot be seen from here."""
    before = Grid.objects.filter(hardware=host, status__in=Grid.OPEN, paused_at=None).order_by("pk")
    numbers = [f"{pk}" for pk in before.values_list("pk", flat=True)[:4]]
    if numbers:
        text = _("Waits for grid %(numbers)s on the same host: one cell at a time runs there.")
        return [Tick("warn", text % {"numbers": ", ".join(numbers)})]
    unseen = _(
        "No other grid waits or runs on %(host)s. Other programs there are not seen from here: write them below."
    )
    return [Tick("ok", unseen % {"host": host.slug})]


def hours(at: datetime) -> Tick:
    """Whether people are likely to work with what the load would disturb."""
    local = timezone.localtime(at)
    said = f"{local:%H:%M} {local.tzname()}"
    if local.weekday() < WORKING_DAYS and OFFICE_FROM <= local.hour < OFFICE_UNTIL:
        text = _(
            "It is %(time)s on a working day. Load disturbs whoever uses the host: let the authorisation begin later."
        )
        return Tick("warn", text % {"time": said})
    return Tick("ok", _("It is %(time)s, outside working hours") % {"time": said})


def authorizer(team_id: int, person_id: int) -> Tick:
    owners = Membership.objects.filter(team_id=team_id, role=Role.HOST_OWNER).exclude(user_id=person_id)
    names = list(owners.order_by("user__username").values_list("user__username", flat=True)[:3])
    if not names:
        text = _("Nobody but you is a host owner in this team. Another person must authorise the grid.")
        return Tick("bad", text)
    text = _("Starts after a host owner other than you has authorised it: %(names)s")
    return Tick("info", text % {"names": ", ".join(names)})
