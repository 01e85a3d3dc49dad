"""The same claims as on files, with PostgreSQL as the queue of record and Redis as the doorbell."""

import pytest

from tests.benchmarks.runs.killing import claim_all_with_four_processes, kill_a_worker_in_mid_cell_and_finish

pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_a_killed_worker_loses_one_attempt_and_no_finished_cell_on_postgresql_and_redis(house):
    kill_a_worker_in_mid_cell_and_finish(house)


def test_four_processes_claim_every_cell_exactly_once_on_postgresql(house):
    claim_all_with_four_processes(house)
