"""`make gpu-check` beside an nvidia-smi that says what the test wants, over the stub of NVML; no CUDA is here to load with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.benchmarks.engine import nvml_stub
from tests.benchmarks.engine.nvml_stub import ROOT, Stub

pytestmark = pytest.mark.needs("gcc", "apt install gcc")
# uuid, driver, total, free, power, temperature, limit: what the stub says by default, in nvidia-smi's units.
AGREED = {"total": "24576", "free": "19968", "power": "200.00", "heat": "50", "limit": "350.00"}


@pytest.fixture
def stub(tmp_path):
    return Stub(tmp_path)


def check(stub: Stub, **said: str | None) -> tuple[int, str]:
    """Its exit code and all that it said. `said` None: there is no nvidia-smi."""
    folder = stub.folder / "bin"
    folder.mkdir()
    if said.get("power", "") is not None:
        line = ", ".join(["GPU-stub-0", "610.1", *(AGREED | said).values()])
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\necho '{line}'\n")
        program.chmod(0o755)
    environment = stub.environment | {"PATH": os.fspath(folder)}
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.gpu_check"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_host_whose_figures_agree_is_told_so_and_that_no_load_was_made(stub):
    code, said = check(stub)
    assert code == 0, said
    assert "gpu-check: all agree" in said
    assert "No load was made, so only the idle card was checked: no load can be made here" in said
    assert said.count("agrees") == 5
    assert "GPU-stub-0" in said
    assert "90.00.0" in said


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"free": "18968"}, "memory idle"),
        ({"power": "260"}, "power idle"),
        ({"heat": "60"}, "temperature idle"),
        ({"limit": "300"}, "power limit idle"),
    ],
)
def test_a_figure_that_differs_is_named(stub, said, what):
    code, text = check(stub, **said)
    assert code == 1
    (line,) = [line for line in text.splitlines() if "DIFFERS" in line]
    assert what in line


def test_what_either_does_not_say_is_not_compared_and_not_zero(stub):
    stub.set(
        fail_nvmlDeviceGetTemperatureV=nvml_stub.NOT_SUPPORTED, fail_nvmlDeviceGetTemperature=nvml_stub.NOT_SUPPORTED
    )
    code, said = check(stub, power="[N/A]")
    assert code == 0
    assert "not compared: nvidia-smi has no figure" in said
    assert "not compared: Headroom has no figure" in said
    assert "gpu_temperature_c            not reported: GPU-stub-0: not supported by this GPU" in said


def test_without_nvidia_smi_or_a_gpu_it_says_so_and_does_not_succeed(stub):
    assert check(stub, power=None) == (
        2,
        "gpu-check: there is no nvidia-smi here to compare with; nothing was checked.\n",
    )
    (stub.folder / "libnvidia-ml.so.1").unlink()
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.gpu_check"], env=stub.environment, cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (2, "gpu-check: no NVIDIA driver on this host; nothing was checked.\n")
