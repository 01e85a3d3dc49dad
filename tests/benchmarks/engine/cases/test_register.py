"""The README of this folder names every case and, for each, tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[1]
REPORTS = (1, 4, 5, 7, 8, 9, 10, 11, 13, 14, 16, 17, 18, 21, 22, 24, 26, 27, 28, 29, 30, 33, 34, 36, 37)
COMPLAINTS = (
    1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26, 27, 29, 30, 31, 33, 34, 35, 37, 38, 39, 41, 42,
    43, 45, 46, 47, 49, 50, 51, 53, 54, 55, 57, 58,
)  # fmt: skip
ROW = re.compile(r"^\| ((?:report|complaint) \d+)(, [^|]*)? \|(.*)\|$", re.MULTILINE)
TEXT = (HERE / "README.md").read_text()
SHOWN, LEFT_OUT = TEXT.split("## Left out")
CASES = {row: re.findall(r"`([^`]+\.py::\w+)`", cells) for row, _, cells in ROW.findall(SHOWN)}


@cache
def claims_of(path: Path) -> dict[str, str]:
    """Name and docstring of each test of a file."""
    tree = ast.parse(path.read_text())
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def rows_in(docstring: str) -> set[str]:
    """`Report 1, complaints 23 and 46: why` names three rows."""
    found = set()
    for kind, numbers in re.findall(r"([Rr]eport|[Cc]omplaint)s?((?:[ ,]|\d+|and)+)", docstring):
        found |= {f"{kind.lower()} {number}" for number in re.findall(r"\d+", numbers)}
    return found


def test_every_case_has_a_row_and_every_row_is_a_case():
    listed = [f"report {n}" for n in REPORTS] + [f"complaint {n}" for n in COMPLAINTS]
    left_out = {row: part for row, part, _ in ROW.findall(LEFT_OUT)}
    whole = {row for row, part in left_out.items() if not part}  # of the others only a part is another's
    assert sorted({*CASES, *whole}) == sorted(listed)
    assert whole & set(CASES) == set()
    assert len(CASES) == len(ROW.findall(SHOWN))
    assert set(left_out) - whole <= set(CASES)


@pytest.mark.parametrize("row", CASES)
def test_the_claims_of_a_case_are_there(row):
    assert CASES[row]
    for test in CASES[row]:
        path, name = test.split("::")
        assert name in claims_of(BENCHMARKS / path), test


@pytest.mark.parametrize("path", sorted(HERE.glob("test_*.py")), ids=lambda path: path.stem)
def test_a_test_that_names_a_case_stands_in_its_row(path):
    where = str(path.relative_to(BENCHMARKS))
    for name, docstring in claims_of(path).items():
        assert {row for row, tests in CASES.items() if f"{where}::{name}" in tests} >= rows_in(docstring), name


@pytest.mark.parametrize(
    "path", [p for p in sorted(HERE.glob("test_*.py")) if "register" not in p.stem], ids=lambda p: p.stem
)
def test_no_test_of_a_case_stands_in_no_row(path):
    where = str(path.relative_to(BENCHMARKS))
    shown = {test for tests in CASES.values() for test in tests}
    assert {f"{where}::{name}" for name in claims_of(path)} <= shown
