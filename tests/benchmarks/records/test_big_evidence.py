"""The script that tells what big cells cost measures whole cells: nothing lost, every step in a process of its own."""

from __future__ import annotations

from benchmarks.engine.columns import from_log
from benchmarks.engine.summary import summarise
from benchmarks.records import parquet
from scripts import big_evidence


def test_a_made_up_cell_is_whole_from_its_log_to_its_parquet(tmp_path):
    path = tmp_path / "cell.log"
    big_evidence.write_log(path, requests=500, gaps=20)
    told = big_evidence.turnaround(path)
    assert told["whole_s"] >= told["columns_s"] + told["summary_s"]
    columns = parquet.read(path.with_suffix(".parquet").read_bytes())
    summary = summarise(columns, columns.plan)
    assert summary == summarise(from_log(path), columns.plan)
    assert (summary.conserved, summary.scheduled, summary.outcomes) == (True, 500, {"ok": 490, "rejected": 10})
    assert summary.of_class("short").chunk_gap_s.n == 490 * 20


def test_each_figure_comes_from_a_process_of_its_own(capsys):
    assert big_evidence.main(["--requests", "60", "--gaps", "3", "--many", "120", "--runs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == [
        "60 requests of 3 gaps, 1 runs", "turnaround", "from_parquet",
        "120 requests of 0 gaps, 1 runs", "turnaround", "from_parquet",
    ]  # fmt: skip
    assert all("conserved" in line and "peak_mb" in line for line in lines if not line.endswith("runs:"))


def test_a_cell_that_lost_a_request_is_called_not_conserved():
    assert big_evidence.told([{"conserved": True}, {"conserved": False}]) == "NOT CONSERVED"
    assert big_evidence.told([{"whole_s": value} for value in (3.0, 1.0, 2.0)]) == "whole_s 2.000 [1.000-3.000]"
