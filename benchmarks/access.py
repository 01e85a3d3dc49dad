"""Who may do what. Every view states its roles with `@allow(...)` or stands open with `@public`; the middleware refuses the rest.

Administrators manage people and registry rows; the role gives no right to authorise, approve or sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponseBase, QueryDict

from benchmarks.models import Membership, Role, Team

EVERYONE = frozenset(Role)
OPERATE = frozenset({Role.OPERATOR, Role.ADMINISTRATOR})
REGISTER_HOST = frozenset({Role.HOST_OWNER, Role.OPERATOR, Role.ADMINISTRATOR})
RUN = frozenset({Role.OPERATOR})
AUTHORIZE = frozenset({Role.HOST_OWNER})
STOP = frozenset({Role.OPERATOR, Role.HOST_OWNER, Role.ADMINISTRATOR})
PROPOSE = frozenset({Role.OPERATOR})
APPROVE = frozenset({Role.APPROVER})
SIGN = frozenset({Role.SIGNER})
PUBLIC: frozenset[Role] = frozenset()

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def allow(roles: frozenset[Role]) -> Callable[[View], View]:
    """Marks a view as open to people who hold one of these roles in the team they work in."""

    def mark(view: View) -> View:
        view.allowed_roles = roles  # type: ignore[attr-defined]
        return view

    return mark


def public(view: View) -> View:
    """Marks a view as open to everybody, without login."""
    view.allowed_roles = PUBLIC  # type: ignore[attr-defined]
    return view


@dataclass(frozen=True, slots=True)
class Person:
    """The signed-in user in one team."""

    user: AbstractBaseUser
    team: Team
    roles: frozenset[Role]

    def may(self, roles: frozenset[Role]) -> bool:
        return bool(self.roles & roles)


_ROLES = f"""
    SELECT m.role, t.id, t.name, t.slug
    FROM {Membership._meta.db_table} m JOIN {Team._meta.db_table} t ON t.id = m.team_id WHERE m.user_id = %s ORDER BY t.slug
"""
"""What every request asks, as it is: putting this query together anew each time would cost more than its answer."""


def person_of(user: AbstractBaseUser | AnonymousUser, team_slug: str | None = None) -> Person | None:
    """The user in the named team, else in their first; None for a stranger or somebody without a team."""
    if not user.is_authenticated:
        return None
    with connection.cursor() as cursor:
        cursor.execute(_ROLES, [user.pk])
        held = cursor.fetchall()
    if not held:
        return None
    _role, *of_team = next((row for row in held if row[3] == team_slug), held[0])
    team = Team.from_db(connection.alias, ("id", "name", "slug"), of_team)
    return Person(user=user, team=team, roles=frozenset(Role(role) for role, key, *_ in held if key == team.pk))


class AccessMiddleware:
    """Checks each request against the roles that its view states; a view that states none is refused to all."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], _args: tuple[Any, ...], _kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        roles: frozenset[Role] | None = getattr(view, "allowed_roles", None)
        person = person_of(request.user, request.session.get("team"))
        request.person = person  # type: ignore[attr-defined]
        if roles == PUBLIC:
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if roles is None or person is None or not person.may(roles):
            raise PermissionDenied("Your roles in this team do not allow this page.")
        return None


def person(request: HttpRequest) -> Person:
    """The person behind a request that AccessMiddleware let through."""
    found: Person | None = getattr(request, "person", None)
    if found is None:
        raise PermissionDenied("Sign in first.")
    return found


def posted(request: HttpRequest) -> QueryDict | None:
    """What was sent, for a form to judge, and None where a page is only opened. An empty POST is judged too."""
    return request.POST if request.method == "POST" else None


def confirmed_by_password(request: HttpRequest, password: str) -> bool:
    """True when the signed-in person typed their own password again."""
    user = request.user
    return isinstance(user, AbstractBaseUser) and user.check_password(password)


def page_context(request: HttpRequest) -> dict[str, object]:
    """For every template: the person, what they may do, and the version."""
    who: Person | None = getattr(request, "person", None)
    rights = {
        "operate": OPERATE, "register_host": REGISTER_HOST, "run": RUN, "authorize": AUTHORIZE,
        "stop": STOP, "propose": PROPOSE, "approve": APPROVE, "sign": SIGN,
    }  # fmt: skip
    return {
        "person": who,
        "may": {name: bool(who and who.may(roles)) for name, roles in rights.items()},
        "version": settings.VERSION,
    }
