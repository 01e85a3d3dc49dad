"""A trace file becomes a workload in the browser, wide and narrow, with scripts and without."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.person import People

pytestmark = pytest.mark.browser
TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"


@pytest.mark.parametrize("width, scripts", [(1440, True), (390, True), (390, False)])
def test_a_trace_is_shown_registered_and_edited_without_a_change(people: People, width: int, scripts: bool) -> None:
    operator = people("operator", width=width, scripts=scripts)
    operator.go("/workloads/import/")
    operator.page.locator('[name="file"]').set_input_files(TRACES / "azure2023_conv_head300.csv")
    operator.press("Read and show")
    expect(operator.page.get_by_role("heading", name="Azure LLM inference trace")).to_be_visible()
    name = f"Traced {width} {'with' if scripts else 'without'} scripts"
    operator.fill(name=name, turns="2", shared_prefix_share="10")
    operator.press("Register workload")
    expect(operator.page.get_by_role("heading", level=1)).to_contain_text(name)
    operator.go(f"{operator.path()}edit/")
    operator.press("Save")
    expect(operator.page.locator("main")).to_contain_text("Nothing changed.")
    assert operator.faults == []


def test_a_file_with_prompts_is_refused_beside_the_file(people: People, tmp_path: Path) -> None:
    operator = people("operator")
    corpus = tmp_path / "corpus.csv"
    corpus.write_text("prompt,response\nWhat is a bank?,A bank is\n")
    operator.go("/workloads/import/")
    operator.page.locator('[name="file"]').set_input_files(corpus)
    operator.page.get_by_role("button", name="Read and show").click()
    expect(operator.page.locator("main .errorlist")).to_contain_text("Only synthetic prompts are ever sent")
    operator.look()
    assert [fault for fault in operator.faults if "422" not in fault] == []
