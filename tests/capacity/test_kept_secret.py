"""The secret that the embedded default keeps: one for all processes, whole, and readable by its owner only."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASK = "from capacity import settings; print(settings.SECRET_KEY)"


def test_processes_that_start_at_once_share_one_secret(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")}
    environment = kept | {"HEADROOM_VAR": str(tmp_path / "var"), "PYTHONPATH": str(ROOT)}
    children = [
        subprocess.Popen([sys.executable, "-c", ASK], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    secrets = [child.communicate(timeout=120)[0].strip() for child in children]
    assert [child.returncode for child in children] == [0] * 6
    file = tmp_path / "var" / "secret-key"
    assert set(secrets) == {file.read_text().strip()}
    assert len(secrets[0]) >= 50
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(p.name for p in file.parent.glob("secret-key*")) == ["secret-key", "secret-key.lock"]
