"""What a worker says of its host, and how another worker knows that it is gone."""

import subprocess
import sys

import pytest

from benchmarks import probe


def test_this_process_is_not_gone_and_one_that_ended_is():
    mine = probe.claimant()
    assert probe.claimant_gone(mine) is False
    asked = "from benchmarks import probe; print(probe.claimant())"
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    assert ended.split("|")[:2] == mine.split("|")[:2]
    assert probe.claimant_gone(ended) is True


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({0: "another-host"}, False),
        ({1: "another-boot"}, True),
        ({3: "another-start"}, True),
        ({0: "another-host", 1: "another-boot"}, False),
    ],
)
def test_only_this_host_can_tell_that_its_process_is_gone(change, gone):
    parts = probe.claimant().split("|")
    assert probe.claimant_gone("|".join(change.get(i, part) for i, part in enumerate(parts))) is gone


@pytest.mark.parametrize("text", ["", "a worker", "a|b|c", "a|b|not a number|d"])
def test_a_claimant_in_another_form_is_left_to_the_heartbeat(text):
    assert probe.claimant_gone(text) is False


def test_facts_name_every_gpu_or_say_that_there_is_none():
    facts = probe.host_facts()
    assert int(str(facts["ram_bytes"])) > 0
    assert str(facts["cpu"])
    gpus = facts["gpus"]
    assert gpus if isinstance(gpus, list) else str(gpus).startswith(probe.NO_GPU)
