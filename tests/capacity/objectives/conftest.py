"""A team with somebody who may draw grids, signed in, and somebody else who may authorise them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchmarks.models import Team
from tests.factories import make_team, make_user


@pytest.fixture
def team() -> Team:
    return make_team()


@pytest.fixture
def operator(team: Team, client: Client) -> User:
    person = make_user(team, "operator")
    make_user(team, "host_owner")
    client.force_login(person)
    return person
