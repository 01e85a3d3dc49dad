"""The house stands as drawn: walls, floors, sizes. Each wall is also broken on purpose, to see the build fail."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PURE = (
    "benchmarks.stats", "benchmarks.engine", "benchmarks.memory", "benchmarks.runtimes", "benchmarks.imports",
    "benchmarks.simulator", "benchmarks.records", "benchmarks.conditions",
    "capacity.assessment", "capacity.controls", "capacity.planning", "capacity.statement",
)  # fmt: skip
FORBIDDEN = {"django", "celery", "redis", "psycopg", "pandas", "plotly", "kombu", "environ", "whitenoise"}
NOT_PURE = {"management", "migrations", "templatetags"}
TOP_LEVEL = {
    ".ci", ".gitignore", "CHANGELOG.md", "Makefile", "README.md", "benchmarks", "capacity", "constraints.txt", "deploy",
    "docker-compose.yml", "docs", "locale", "manage.py", "package-lock.json", "package.json", "pyproject.toml",
    "requirements-dev.txt", "requirements-real.txt", "requirements-tokenizer.txt", "requirements.txt", "scripts", "static",
    "templates", "tests", "tools",
}  # fmt: skip


def tracked(*patterns: str) -> list[Path]:
    """Files of the working tree that git knows or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).exists()]


def product_files() -> list[Path]:
    return [p for p in tracked("*.py") if not {"migrations", "tests"} & set(p.relative_to(ROOT).parts)]


def modules_of(package: str) -> list[str]:
    folder = ROOT / package.replace(".", "/")
    found = [p.relative_to(ROOT).with_suffix("") for p in folder.rglob("*.py") if p.name != "__main__.py"]
    return sorted(".".join(p.parts).removesuffix(".__init__") for p in found)


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports_command as c; sys.path.insert(0, '.'); c()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy_of_the_tree(tmp_path: Path) -> Path:
    for name in ("benchmarks", "capacity"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.ttf"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_contracts_hold_in_an_untouched_copy(copy_of_the_tree: Path):
    assert lint_imports(copy_of_the_tree).returncode == 0


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("capacity/queries.py", "from benchmarks import runs"),
        ("capacity/queries.py", "import benchmarks.tasks"),
        ("benchmarks/engine/runner.py", "import django.db"),
        ("benchmarks/stats/estimates.py", "import pandas"),
        ("benchmarks/queries.py", "import capacity.models"),
        ("benchmarks/engine/plan.py", "import benchmarks.simulator"),
        ("benchmarks/helpers.py", "NAME = 1"),
    ],
)
def test_a_wall_that_is_broken_fails_the_build(copy_of_the_tree: Path, file: str, line: str):
    target = copy_of_the_tree / file
    before = target.read_text() if target.exists() else '"""A stray module."""\n'
    future = "from __future__ import annotations\n"
    target.write_text(before.replace(future, f"{future}\n{line}\n", 1) if future in before else f"{before}\n{line}\n")
    done = lint_imports(copy_of_the_tree)
    assert (done.returncode, "BROKEN" in done.stdout or "not in layers" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize("package", PURE)
def test_importing_a_pure_package_loads_no_framework_not_even_indirectly(package: str):
    names = modules_of(package)
    code = f"import importlib, sys\nfor n in {names!r}: importlib.import_module(n)\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & FORBIDDEN == set()


def test_every_folder_of_an_app_that_is_not_django_s_is_on_the_list_of_pure_packages():
    folders = {
        f"{app}.{p.name}"
        for app in ("benchmarks", "capacity")
        for p in (ROOT / app).iterdir()
        if (p / "__init__.py").exists()
    }
    assert {name for name in folders if name.partition(".")[2] not in NOT_PURE} == set(PURE)


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_says_what_is_in_it_and_what_is_not(package: str):
    text = (ROOT / package.replace(".", "/") / "__init__.py").read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(tree.body) == 1, "an __init__.py holds a docstring only"


def function_lengths() -> list[tuple[int, str]]:
    found = []
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append((length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
    return sorted(found)


def test_no_function_has_more_than_sixty_lines_and_nine_of_ten_have_at_most_thirty():
    lengths = function_lengths()
    assert [where for length, where in lengths if length > 60] == []
    assert lengths[int(len(lengths) * 0.9)][0] <= 30


def test_no_file_has_more_than_four_hundred_lines():
    counted = {p.relative_to(ROOT): len(p.read_text().splitlines()) for p in product_files()}
    assert {str(p): lines for p, lines in counted.items() if lines > 400} == {}


@pytest.mark.parametrize("package", PURE)
def test_no_contract_of_a_pure_package_is_a_dict_of_anything(package: str):
    files = (ROOT / package.replace(".", "/")).rglob("*.py")
    assert [
        str(p.relative_to(ROOT)) for p in files if re.search(r"dict\[str, Any\]", p.read_text(), re.IGNORECASE)
    ] == []


def test_the_top_level_holds_what_the_plan_names_and_nothing_else():
    assert {p.relative_to(ROOT).parts[0] for p in tracked()} <= TOP_LEVEL


def test_pages_styles_and_scripts_name_no_outside_address():
    files = [p for p in tracked("templates", "static/css", "static/js") if p.suffix in {".html", ".js", ".css", ".svg"}]
    outside = re.compile(r"https?://(?!127\.0\.0\.1|localhost|www\.w3\.org/)")
    assert [str(p.relative_to(ROOT)) for p in files if outside.search(p.read_text())] == []


def test_templates_hold_no_inline_script_and_no_inline_handler():
    inline = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)|\son[a-z]+=\"", re.IGNORECASE)
    assert [str(p.relative_to(ROOT)) for p in tracked("templates/*.html") if inline.search(p.read_text())] == []


def test_no_file_knows_a_path_of_one_machine():
    files = [p for p in tracked("*.py", "*.html", "*.md", "Makefile", ".ci") if "tests/house" not in str(p)]
    assert [str(p.relative_to(ROOT)) for p in files if re.search(r"(?<![\w.])/(work|farm)/", p.read_text())] == []
