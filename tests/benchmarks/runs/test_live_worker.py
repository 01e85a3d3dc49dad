"""A real worker, broker, engine and simulator, in a folder that is thrown away: SQLite and Celery on files."""

import pytest

from tests.benchmarks.runs.installation import Installation
from tests.benchmarks.runs.killing import claim_all_with_four_processes, kill_a_worker_in_mid_cell_and_finish

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path):
    made = Installation(tmp_path)
    yield made
    made.close()


def test_a_killed_worker_loses_one_attempt_and_no_finished_cell(house):
    kill_a_worker_in_mid_cell_and_finish(house)


def test_four_processes_claim_every_cell_exactly_once(house):
    claim_all_with_four_processes(house)


REBUILD = """
from django.db import connection, models
from benchmarks import triggers
from benchmarks.models import Cell, Grid
standing = triggers.missing()
triggers.remove(plan=[1])
for model, name in ((Grid, "name"), (Cell, "reason")):
    old = model._meta.get_field(name)
    new = models.CharField(max_length=250)
    new.set_attributes_from_name(name)
    with connection.schema_editor() as editor:
        editor.alter_field(model, old, new)
gone = len(triggers.missing())
triggers.reinstall()
answer = [standing, gone, triggers.missing()]
"""


def test_triggers_let_a_migration_rebuild_a_table_and_stand_again_after_it(house):
    house.migrate()
    standing, gone, after = house.script(REBUILD)
    assert (standing, gone > 0, after) == ([], True, [])
