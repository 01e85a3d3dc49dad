"""For all tests: the product's settings in a folder of their own (tests/settings.py), thrown away at the end.

A test that this machine cannot run says so: `pytest.mark.needs("pdfsig", "apt install poppler-utils")` skips it with
the reason, the run ends with a list of all such tests, and with CI=true that is a failure.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings

# No test asserts a time, and an example takes as long as a busy machine lets it.
hypothesis_settings.register_profile("headroom", deadline=None)
hypothesis_settings.load_profile("headroom")

# Processes that a test starts use the product's settings, in the folder that HEADROOM_VAR already names.
os.environ["DJANGO_SETTINGS_MODULE"] = "capacity.settings"

SKIPPED = pytest.StashKey[list[str]]()


@pytest.fixture(autouse=True)
def _nothing_drawn_before() -> None:
    """Rows of two tests may have the same numbers; what was drawn of one is not shown by the other."""
    from django.core.cache import caches  # settings are known only once a test runs

    caches["figures"].clear()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SKIPPED] = []
    config.addinivalue_line("markers", "needs(program, how): a program that the test starts, and how to install it")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        program, how = mark.args
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here: {how}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        item.config.stash[SKIPPED].append(f"{item.nodeid}: {why.removeprefix('Skipped: ')}")
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.stash[SKIPPED] and os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    skipped = config.stash[SKIPPED]
    if not skipped:
        return
    fatal = " (with CI=true this is a failure)" if os.environ.get("CI") == "true" else ""
    terminalreporter.section(f"could not run here{fatal}")
    for line in sorted(skipped):
        terminalreporter.write_line(line)
