"""PostgreSQL and Redis for the tests of this folder: a database of its own on the server that `make test-services` names."""

from __future__ import annotations

import os
import uuid
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis
from psycopg import sql

from tests.benchmarks.runs.installation import Installation


def _named(variable: str) -> str:
    address = os.environ.get(variable, "")
    assert address, f"{variable} names no service: run these tests with `make test-services`"
    return address


@pytest.fixture
def postgres():
    """The address of a fresh database, dropped afterwards."""
    server, name = _named("TEST_DATABASE_URL"), f"headroom_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def broker():
    """The address of a Redis database that nothing else here uses, emptied before and after."""
    address = urlunsplit(urlsplit(_named("TEST_BROKER_URL"))._replace(path="/7"))
    with redis.Redis.from_url(address) as client:
        client.flushdb()
        yield address
        client.flushdb()


@pytest.fixture
def house(tmp_path, postgres, broker):
    made = Installation(tmp_path, DATABASE_URL=postgres, BROKER_URL=broker)
    yield made
    made.close()
