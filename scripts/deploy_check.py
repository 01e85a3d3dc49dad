"""`make check`: no migration missing, and `check --deploy` clean with the values of deploy/headroom.env.example?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.stack import ROOT

EXAMPLE = ROOT / "deploy" / "headroom.env.example"


def example_environment(home: Path) -> dict[str, str]:
    """The documented production environment, with secrets filled in and every path under `home`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
    for line in EXAMPLE.read_text().splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            env[name.strip()] = value.strip()
    for name, secret in (
        ("SECRET_KEY", "k" + os.urandom(40).hex()),
        ("DATABASE_URL", "postgres://headroom:x@db/headroom"),
    ):
        file = home / name.lower()
        file.write_text(secret)
        env[f"{name}_FILE"] = str(file)
    keys = home / "keys"
    keys.mkdir(mode=0o700)
    return env | {"HEADROOM_VAR": str(home), "HEADROOM_KEYS": str(keys)}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="headroom-check-") as name:
        home = Path(name)
        env = example_environment(home)
        deploy = ["check", "--deploy", "--fail-level", "WARNING"]
        embedded = {**os.environ, "HEADROOM_VAR": str(home / "embedded")}
        for title, arguments, environment in (
            ("manage.py makemigrations --check", ["makemigrations", "--check", "--dry-run"], embedded),
            ("manage.py check", ["check", "--fail-level", "WARNING"], embedded),
            ("manage.py check --deploy, with deploy/headroom.env.example", deploy, env),
        ):
            print(title, flush=True)
            code = subprocess.run(
                [sys.executable, "manage.py", *arguments], env=environment, cwd=ROOT, check=False
            ).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
