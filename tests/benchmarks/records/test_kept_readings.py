"""Telemetry of a cell as a few points: the highest of each span, nothing where nothing was read."""

from __future__ import annotations

import pytest

from benchmarks.engine.columns import from_frames
from benchmarks.engine.terms import Reading, Window
from benchmarks.records import kept_readings
from benchmarks.records.arrays import WrongSchemaError
from benchmarks.records.parquet import write
from tests.benchmarks.engine.plans import a_header, a_plan, a_record

S = 1_000_000_000
WHOLE = Window(start_ns=10 * S, end_ns=20 * S)


def evidence(*readings: Reading, window: Window | None = WHOLE) -> bytes:
    frames: list[object] = [a_header(a_plan()), a_record(1), *readings]
    return write(from_frames([*frames, *([window] if window else [])]))  # type: ignore[arg-type]


def reading(at_s: float, value: float, *, name: str = "gpu_power_w", device: str = "GPU-1") -> Reading:
    return Reading(t_ns=int(at_s * S), name=name, value=value, source="nvml", device=device)


def test_each_span_has_the_highest_reading_of_any_card_and_none_where_nothing_was_read() -> None:
    content = evidence(
        reading(9.9, 900.0), reading(10.1, 200.0), reading(11.0, 250.0, device="GPU-2"), reading(15.5, 300.0),
        reading(20.0, 999.0), reading(12.0, 55.0, name="gpu_temperature_c"),
    )  # fmt: skip
    found = kept_readings.read(content, ["gpu_power_w", "runtime_running"], 5)
    assert found.window_s == 10.0
    assert found.spans == {"gpu_power_w": (250.0, None, 300.0, None, None)}


@pytest.mark.parametrize("window", [None, Window(start_ns=10 * S, end_ns=10 * S)])
def test_without_a_window_there_is_nothing_to_lay_readings_into(window: Window | None) -> None:
    found = kept_readings.read(evidence(reading(11.0, 1.0), window=window), ["gpu_power_w"], 5)
    assert (found.window_s, found.spans) == (None, {})


def test_evidence_without_readings_has_its_window_and_no_points() -> None:
    found = kept_readings.read(evidence(), ["gpu_power_w"], 5)
    assert (found.window_s, found.spans) == (10.0, {})


def test_what_is_no_evidence_is_refused() -> None:
    with pytest.raises(WrongSchemaError, match="not a Parquet file"):
        kept_readings.read(b"nothing", ["gpu_power_w"], 5)


def test_what_is_stored_beside_the_evidence_reads_back_and_thins_to_its_peaks() -> None:
    content = evidence(reading(10.1, 200.0), reading(15.5, 300.0))
    stored = kept_readings.as_json(content)
    found = kept_readings.from_json(stored)
    assert found == kept_readings.read(content, kept_readings.NAMES, kept_readings.SPANS)
    assert found.thinned(2) == kept_readings.read(content, ["gpu_power_w"], 2)
    assert (found.thinned(48), found.thinned(100)) == (found, found)


def test_evidence_that_is_no_parquet_has_no_readings_beside_it() -> None:
    assert kept_readings.as_json(b"nothing") is None
