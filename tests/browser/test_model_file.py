"""The file of a model becomes a geometry in the browser: of a large GGUF file only its beginning is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from benchmarks.memory.reading import MOST_BYTES
from tests.browser.person import People, Person
from tools import tiny_gguf

pytestmark = pytest.mark.browser
DATA = Path(__file__).resolve().parents[1] / "data" / "memory"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with its weights, and zeros behind them, larger than what is taken."""
    path = tmp_path_factory.mktemp("model") / "large.gguf"
    tiny_gguf.write(path, tiny_gguf.Shape(layers=2, width=64, heads=4, kv_heads=2, vocabulary=4096, context=512))
    with path.open("ab") as file:
        file.truncate(2 * MOST_BYTES)
    return path


def begin(operator: Person, name: str) -> None:
    operator.go("/hosts/new/")
    operator.fill(name=f"Host of {name}", ram_gib="16")
    operator.press("Register host")
    operator.go("/runtimes/new/")
    operator.page.locator('[name="hardware"]').select_option(label=f"Host of {name}")
    operator.page.locator('[name="kind"]').select_option("llamacpp")
    operator.fill(name=name, endpoint="http://127.0.0.1:8080", model_name="tiny", flags="llama-server -np 2 -c 1024")


@pytest.mark.parametrize("width", [1440, 390])
def test_a_large_model_is_read_from_its_beginning(people: People, large: Path, width: int) -> None:
    operator = people("operator", width=width)
    begin(operator, f"Large {width}")
    operator.page.locator('[name="geometry_file"]').set_input_files(large)
    operator.press("Register runtime")
    main = operator.page.locator("main")
    expect(main).to_contain_text("llama, 2 layers: 2 keep every token")
    expect(main).to_contain_text("256 bytes in f16")
    expect(main).to_contain_text("large.gguf, SHA-256")
    operator.go(f"{operator.path()}edit/")
    expect(operator.page.locator("main")).to_contain_text("Forget what is kept")
    assert operator.faults == []


def test_without_scripts_a_large_model_is_refused_with_the_command_that_cuts_it(people: People, large: Path) -> None:
    operator = people("operator", scripts=False)
    begin(operator, "Large without scripts")
    operator.page.locator('[name="geometry_file"]').set_input_files(large)
    operator.page.get_by_role("button", name="Register runtime").click()
    expect(operator.page.locator("main .errorlist")).to_contain_text("head -c 32M model.gguf > head.gguf")
    operator.page.locator('[name="geometry_file"]').set_input_files(DATA / "gpt-oss-20b.config.json")
    operator.press("Register runtime")
    expect(operator.page.locator("main")).to_contain_text("24 layers: 12 keep the last 128, 12 keep every token")
