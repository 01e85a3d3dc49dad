"""What it costs to judge a grid of a million requests, from its stored summaries and from its evidence.

    python -m scripts.big_grid [--requests 1000000] [--settings 4] [--repeats 3]

Writes made-up logs into a temporary folder and brings each to a summary and a Parquet file, as a worker does. Then, each in
a process of its own so that its peak memory is its own: `judge` reads the stored summaries and gives the verdict, as the
page of a grid does; `evidence` reads every Parquet file, summarises it again and judges that. `cpu_s` is that of the whole
process with its start, which other programs do not stretch as they do the clock's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine.columns import from_log
from benchmarks.engine.plan import ClassLimits, GridLimits
from benchmarks.engine.summary import summarise
from benchmarks.engine.summary_types import CellSummary, as_json, from_json
from benchmarks.records import parquet
from capacity.assessment.choose import judge
from capacity.assessment.facts import MEASURED, CellFact, GridFacts
from scripts.big_evidence import ROOT, peak_mb, write_log

LIMIT_S = 1.0


def write_cells(folder: Path, *, requests: int, settings: int, repeats: int) -> None:
    """A summary and a Parquet file for each cell, named by setting and repeat: 1, 2, 4, ... in flight."""
    each = requests // (settings * repeats)
    for place in range(settings * repeats):
        setting, repeat = 2 ** (place // repeats), place % repeats + 1
        log = folder / "log"
        write_log(log, requests=each, gaps=0, seed=place + 1)
        columns = from_log(log)
        name = folder / f"{setting}-{repeat}"
        name.with_suffix(".json").write_text(json.dumps(as_json(summarise(columns, columns.plan))))
        name.with_suffix(".parquet").write_bytes(parquet.write(columns))
        log.unlink()


def facts_of(found: Sequence[tuple[Path, CellSummary]]) -> GridFacts:
    cells = []
    for number, (path, summary) in enumerate(found, 1):
        setting, repeat = map(int, path.stem.split("-"))
        cells.append(
            CellFact(
                cell_id=number,
                setting=setting,
                class_name="short",
                repeat=repeat,
                status=MEASURED,
                reason="",
                summary=summary,
            )
        )
    return GridFacts(
        limits=GridLimits(success_share=0.9, classes={"short": ClassLimits(e2e_s=LIMIT_S)}), cells=tuple(cells),
        setting_values=tuple(sorted({cell.setting for cell in cells})), class_names=("short",), class_weights={"short": 1.0},
        has_gpu=False, simulated=True,
    )  # fmt: skip


def from_summaries(folder: Path) -> dict[str, float]:
    began = time.perf_counter()
    paths = sorted(folder.glob("*.json"))
    found = [(path, from_json(json.loads(path.read_text()))) for path in paths]
    return _judged(found, began) | {"stored_kb": sum(path.stat().st_size for path in paths) / 1000}


def from_evidence(folder: Path) -> dict[str, float]:
    began = time.perf_counter()
    found = []
    for path in sorted(folder.glob("*.parquet")):
        columns = parquet.read(path.read_bytes())
        found.append((path, summarise(columns, columns.plan)))
    return _judged(found, began)


def _judged(found: Sequence[tuple[Path, CellSummary]], began: float) -> dict[str, float]:
    told = time.perf_counter()
    verdict = judge(facts_of(found))
    ended = time.perf_counter()
    requests = sum(summary.scheduled for _, summary in found)
    times = {"whole_s": ended - began, "judge_s": ended - told, "cpu_s": time.process_time()}
    return {"requests": requests, "peak_mb": peak_mb(), "rows": len(verdict.rows)} | times


STEPS = {"judge": from_summaries, "evidence": from_evidence}


def in_a_process_of_its_own(step: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "scripts.big_grid", "--step", step, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.big_grid")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--settings", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--step", nargs=2, metavar=("STEP", "FOLDER"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.step:
        print(json.dumps(STEPS[chosen.step[0]](Path(chosen.step[1]))))
        return 0
    with tempfile.TemporaryDirectory(prefix="headroom-grid-") as name:
        folder, began = Path(name), time.perf_counter()
        write_cells(folder, requests=chosen.requests, settings=chosen.settings, repeats=chosen.repeats)
        print(f"{chosen.settings * chosen.repeats} cells written in {time.perf_counter() - began:.0f} s")
        for step in STEPS:
            found = in_a_process_of_its_own(step, folder)
            print(f"  {step}: " + ", ".join(f"{key} {value:,.3g}" for key, value in found.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
