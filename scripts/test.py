"""`make test` and its siblings: pytest on one part of the tests, in a clean environment.

What a part needs and this machine lacks is said in one line each; with CI=true that is a failure, as in the tests
themselves (tests/conftest.py counts what was skipped).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PARTS = {
    "": "not service and not browser and not real",
    "--services": "service",
    "--browser": "browser",
    "--real": "real",
}
NEXT = "Run apart: make test-services (PostgreSQL, Redis), make test-browser (Chromium), make test-real (llama.cpp)."


def missing(part: str) -> list[str]:
    """What this part cannot do without, one line each."""
    needs = []
    if part == "--browser" and not shutil.which("chromium"):
        needs.append("no /usr/bin/chromium here: the browser journeys cannot run (Debian: apt install chromium)")
    if part == "--services" and not os.environ.get("TEST_DATABASE_URL"):
        needs.append("TEST_DATABASE_URL names no PostgreSQL: run `make test-services`, which starts one")
    return needs


def main() -> int:
    arguments = sys.argv[1:]
    part = next((a for a in arguments if a in PARTS), "")
    rest = [a for a in arguments if a not in PARTS]
    lacking = missing(part)
    if lacking:
        print("\n".join(f"Could not run: {line}" for line in lacking), file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" or part == "--services" else 0
    command = [sys.executable, "-m", "pytest", "-q", "-m", PARTS[part], *rest]
    code = subprocess.run(command, check=False).returncode
    if not part and code == 0:
        print(NEXT)
    return code


if __name__ == "__main__":
    sys.exit(main())
