"""Static files: what is vendored is what the lock says, and the theme keeps its own rules."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import plotly.offline
import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings

ROOT = Path(settings.BASE_DIR)
VENDOR = ROOT / "static" / "vendor"
MANIFEST = json.loads((VENDOR / "MANIFEST.json").read_text(encoding="utf-8"))
PROJECT = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
LOCK = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
PACKAGES = {package["name"]: package for package in MANIFEST["packages"]}
THEME = re.sub(r"/\*.*?\*/", "", (ROOT / "static/css/theme.css").read_text(encoding="utf-8"), flags=re.DOTALL)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


def test_each_vendored_file_has_the_digest_of_the_manifest() -> None:
    recorded = {file["path"]: file["sha256"] for package in PACKAGES.values() for file in package["files"]}
    found = {path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest() for path in recorded}
    assert found == recorded


def test_nothing_lies_in_the_vendor_folder_that_the_manifest_does_not_name() -> None:
    named = {file["path"] for package in PACKAGES.values() for file in package["files"]}
    lying = {str(path.relative_to(ROOT)) for path in VENDOR.rglob("*") if path.is_file()}
    assert lying - named == {"static/vendor/MANIFEST.json"}


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_each_vendored_version_is_the_one_of_package_json_and_its_lock(name: str) -> None:
    wanted = {**PROJECT["dependencies"], **PROJECT["devDependencies"]}[name]
    assert PACKAGES[name]["version"] == wanted == LOCK["packages"][f"node_modules/{name}"]["version"]


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_each_vendored_package_comes_with_its_licence_text(name: str) -> None:
    assert [file["path"] for file in PACKAGES[name]["files"] if "license" in file["path"].lower()]
    assert PACKAGES[name]["licence"] in {"MIT", "ISC", "0BSD", "BSD-0-Clause", "OFL-1.1", "MPL-2.0"}


def test_every_version_is_exact() -> None:
    versions = [*PROJECT["dependencies"].values(), *PROJECT["devDependencies"].values()]
    assert [version for version in versions if not re.fullmatch(r"\d+\.\d+\.\d+", version)] == []


def test_the_vendored_plotly_js_is_the_one_that_plotly_py_writes_for() -> None:
    assert plotly.offline.get_plotlyjs_version() == PACKAGES["plotly.js-basic-dist-min"]["version"]


def test_the_sprite_holds_the_icons_of_package_json_and_no_others() -> None:
    sprite = next(VENDOR.glob("lucide-static@*/icons.svg")).read_text(encoding="utf-8")
    assert re.findall(r'<symbol id="([^"]+)"', sprite) == PROJECT["headroom"]["icons"] == MANIFEST["icons"]


def test_every_icon_that_a_template_names_is_in_the_sprite() -> None:
    named = {
        (path.name, name)
        for path in TEMPLATES
        for name in re.findall(r"""\{%\s*icon\s+["']([^"']+)["']""", path.read_text(encoding="utf-8"))
    }
    assert [pair for pair in sorted(named) if pair[1] not in MANIFEST["icons"]] == []


def test_every_static_file_can_be_hashed_and_no_reference_in_them_is_broken(tmp_path: Path) -> None:
    storage = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}}
    with override_settings(STATIC_ROOT=tmp_path, STORAGES={**settings.STORAGES, **storage}):
        call_command("collectstatic", interactive=False, verbosity=0)
    paths = json.loads((tmp_path / "staticfiles.json").read_text(encoding="utf-8"))["paths"]
    theme = (tmp_path / paths["css/theme.css"]).read_text(encoding="utf-8")
    fonts = re.findall(r'url\("\.\./(vendor/[^"]+\.woff2)"', theme)
    assert sorted(font.replace("%40", "@") for font in fonts) == sorted(
        hashed for path, hashed in paths.items() if path.endswith(".woff2")
    )


def _tokens(block: str) -> dict[str, str]:
    return dict(re.findall(r"(--[a-z0-9-]+):\s*([^;]+);", block))


LIGHT = _tokens(THEME[THEME.index(":root {") : THEME.index("@media screen")])
DARK = LIGHT | _tokens(THEME[THEME.index('[data-theme="dark"] {') : THEME.index("html {")])
COMPONENTS = THEME[THEME.index("html {") :]


def test_components_name_colours_only_as_tokens() -> None:
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", COMPONENTS.replace("--page: #ffffff", "")) == []


def test_every_token_in_use_is_defined() -> None:
    local = {"--q", "--hr-columns"}
    assert set(re.findall(r"var\((--[a-z0-9-]+)", THEME)) - set(LIGHT) - local == set()


def test_the_theme_uses_logical_properties_only() -> None:
    physical = (
        r"(?:margin|padding|border|inset)-(?:left|right|top|bottom)\b|[\s{;](?:left|right|top|bottom|width|height)\s*:"
    )
    assert re.findall(physical, COMPONENTS) == []


def test_own_classes_carry_the_prefix() -> None:
    selectors = re.sub(r"\{[^{}]*\}", " ", re.sub(r"@media[^{]+", "", COMPONENTS))
    classes = set(re.findall(r"\.([a-zA-Z][\w-]*)", selectors))
    assert {name for name in classes if not name.startswith("hr-")} == {"errorlist", "nonfield"}  # Django's own two


def test_the_theme_uses_nothing_newer_than_the_oldest_browsers_we_name() -> None:
    assert re.findall(r"color-mix\(|oklch\(|light-dark\(|:has\(|@container|@scope|@layer", THEME) == []


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio, 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


TEXT_PAIRS = [
    *[(text, ground) for text in ("text", "text-2", "text-3", "accent") for ground in ("page", "surface", "sunken")],
    *[(state, f"{state}-soft") for state in ("ok", "warn", "bad", "info", "idle")],
    *[(state, "surface") for state in ("ok", "warn", "bad", "info", "idle", "limit")],
    *[("text", f"{state}-soft") for state in ("ok", "warn", "bad", "info", "accent")],
    ("on-accent", "accent"), ("on-accent", "accent-hover"), ("accent", "accent-soft"), ("text-3", "hover"),
    *[("on-h", f"h{step}") for step in range(1, 6)], ("on-h-end", "h0"), ("on-h-end", "h6"),
]  # fmt: skip
EDGE_PAIRS = [
    ("control", "surface"),
    ("control", "page"),
    ("accent", "surface"),
    ("limit", "surface"),
    ("k-median", "surface"),
]


@pytest.mark.parametrize(("theme", "tokens"), [("light", LIGHT), ("dark", DARK)])
def test_text_reaches_four_and_a_half_to_one_on_every_ground_it_stands_on(theme: str, tokens: dict[str, str]) -> None:
    weak = {pair: _contrast(tokens[f"--{pair[0]}"], tokens[f"--{pair[1]}"]) for pair in TEXT_PAIRS}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


@pytest.mark.parametrize(("theme", "tokens"), [("light", LIGHT), ("dark", DARK)])
def test_edges_of_controls_and_lines_of_charts_reach_three_to_one(theme: str, tokens: dict[str, str]) -> None:
    weak = {pair: _contrast(tokens[f"--{pair[0]}"], tokens[f"--{pair[1]}"]) for pair in EDGE_PAIRS}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 3.0} == {}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_a_template_keeps_the_content_policy(path: Path) -> None:
    text = re.sub(r"\{#.*?#\}", "", path.read_text(encoding="utf-8"))
    assert re.findall(r"<style\b", text) == []
    assert [tag for tag in re.findall(r"<script\b[^>]*>", text) if " src=" not in tag] == []
    assert re.findall(r"\son[a-z]+=", text) == []
    assert re.findall(r"""(?:src|href|action)=["']https?://[^"']*""", text) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_a_template_names_only_classes_that_the_theme_has(path: Path) -> None:
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "\x00", path.read_text(encoding="utf-8"))
    used = {
        name for value in re.findall(r'class="([^"]*)"', text) for name in re.split(r"\s+", value) if "\x00" not in name
    }
    assert {name for name in used if name.startswith("hr-")} - _styled() == set()


def _styled() -> set[str]:
    sheets = "".join(sheet.read_text(encoding="utf-8") for sheet in (ROOT / "static/css").glob("*.css"))
    return set(re.findall(r"\.(hr-[\w-]+)", sheets))


def test_classes_that_a_template_puts_together_are_styled_too() -> None:
    steps = [f"hr-q{step}" for step in range(7)]
    spans, stages = ["hr-f-h", "hr-f-t", "hr-f-q"], ["hr-now", "hr-wait", "hr-bad"]
    tones = [f"hr-{what}-{tone}" for what in ("t", "note") for tone in ("bad", "warn", "info")]
    assert {*steps, "hr-qn", *spans, *stages, *tones, *(f"hr-rows-{n}" for n in range(1, 7))} - _styled() == set()
