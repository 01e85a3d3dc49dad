"""The file of demonstration passwords: one account a line, readable by its owner only."""

from __future__ import annotations

import os
from pathlib import Path


def read_passwords(path: Path) -> dict[str, str]:
    """Username to password, as an earlier run left them; empty without the file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {parts[0]: parts[1] for line in lines if len(parts := line.split()) == 2 and not line.startswith("#")}


def write_passwords(path: Path, passwords: dict[str, str]) -> None:
    """Mode 600 from the first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write("# Demonstration accounts of Headroom: username, password\n")
        file.writelines(f"{name:<14} {password}\n" for name, password in passwords.items())
