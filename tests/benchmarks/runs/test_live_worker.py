"""A real worker, broker, engine and simulator, in a folder that is thrown away: SQLite and Celery on files."""

import pytest

from tests.benchmarks.runs.installation import Installation
from tests.benchmarks.runs.killing import kill_a_worker_in_mid_cell_and_finish

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path):
    made = Installation(tmp_path)
    yield made
    made.close()


def test_a_killed_worker_loses_one_attempt_and_no_finished_cell(house):
    kill_a_worker_in_mid_cell_and_finish(house)
