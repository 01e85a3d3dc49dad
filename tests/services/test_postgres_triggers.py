"""PostgreSQL refuses what SQLite refuses, and TRUNCATE too. The default test database must be PostgreSQL here."""

import pytest
from django.db import connection

from benchmarks import triggers
from tests.benchmarks.runs import protected

pytestmark = [pytest.mark.service, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def _on_postgresql(db):
    assert connection.vendor == "postgresql", "run these tests with `make test-services`"


@pytest.mark.parametrize(("what", "sql", "words"), protected.STATEMENTS, ids=[row[0] for row in protected.STATEMENTS])
def test_raw_sql_meets_the_same_rules_as_the_code(what, sql, words):
    answer = protected.refusal(protected.filled(sql, protected.make_world()))
    assert (answer is None) if words is None else (answer is not None and words in answer), answer


@pytest.mark.parametrize("table", triggers.NO_TRUNCATE)
def test_a_protected_table_is_never_emptied(table):
    protected.make_world()
    connection.check_constraints()  # otherwise TRUNCATE is refused for checks that still wait, before any trigger
    answer = protected.refusal(f"TRUNCATE {table} CASCADE")
    assert answer is not None
    assert "never emptied" in answer


def test_every_trigger_stands():
    assert triggers.missing() == []
