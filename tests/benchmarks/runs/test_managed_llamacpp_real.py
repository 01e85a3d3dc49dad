"""llama.cpp's own server, started by the worker with 1, 2, 4 and 8 slots."""

import sys

import pytest

from benchmarks.runtimes import launch
from tests.benchmarks.runs.installation import Installation
from tests.benchmarks.runs.managing import DRAW_MANAGED, PLANS, finish, free_port, started_by, told, write_profile
from tests.benchmarks.runtimes.llamacpp import write_model

pytestmark = [pytest.mark.real, pytest.mark.slow]
CONTEXT, ROUNDED_UP = 500, 512
SMALLEST = ("--layers", "1", "--width", "64", "--heads", "4", "--kv-heads", "2", "--vocabulary", "1024")


@pytest.fixture
def house(tmp_path):
    made = Installation(tmp_path)
    write_model(tmp_path / "tiny.gguf", *SMALLEST)
    yield made
    made.close()


def command(house: Installation, *more: str) -> list[str]:
    model = str(house.folder / "tiny.gguf")
    return [
        sys.executable, "-m", "tools.llamacpp_server", model, "--port", "{port}", "--slots", "{setting}",
        "--context-per-slot", "{context}", *more,
    ]  # fmt: skip


def run(house: Installation, port: int, *, settings: tuple[int, ...]) -> int:
    house.migrate()
    drawn = DRAW_MANAGED.format(
        kind="llamacpp", endpoint=f"http://127.0.0.1:{port}", model="headroom-tiny", settings=settings, window_s=3.0
    )
    grid = int(house.script(drawn))
    house.start_worker()
    finish(house)
    return grid


def test_slots_are_measured_with_the_value_read_back_and_the_context_per_slot_right(house):
    port = free_port()
    said = write_profile(house, "llamacpp", command(house), port=port, context=CONTEXT)
    grid = run(house, port, settings=(1, 2, 4, 8))
    assert [s for s, _ in told(house)] == ["measured"] * 4, (told(house), house.log("worker.log"))
    cells = house.script(PLANS.format(grid=grid))
    assert [cell[:5] for cell in cells] == [[n, n, n, ROUNDED_UP, n * ROUNDED_UP] for n in (1, 2, 4, 8)]
    for cell in cells:
        kept = cell[5]
        assert kept["effective"]["sources"]["max_active_sequences"] in ("/slots", "/props")
        assert (kept["ended"]["left"], kept["ended"]["killed"], kept["ended"]["port_free"]) == (0, 0, True)
        assert kept["ended"]["rss_bytes"] > 10_000_000
    assert (said.read_text().split(), started_by(str(port))) == (["stopped", "started"], [])


def test_one_pool_for_all_slots_is_warned_of_before_and_refused_when_it_runs(house):
    port = free_port()
    unified = command(house, "--kv-unified", "{context_total}")
    assert "all slots share one pool" in launch.warnings_about("llamacpp", unified)[0]
    write_profile(house, "llamacpp", unified, port=port, context=CONTEXT)
    run(house, port, settings=(2,))
    ((status, reason),) = told(house)
    assert status == "not_run"
    assert f"asked for {ROUNDED_UP} tokens a sequence and says it has {2 * ROUNDED_UP:,}" in reason
    assert "its KV cache is unified" in reason
    warned = house.script(
        "from benchmarks.models import Hardware\nanswer = Hardware.objects.get().offers['profiles']['p']"
    )
    assert "all slots share one pool" in warned["warnings"][0]
