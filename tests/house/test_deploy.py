"""What stands in deploy/ and docker-compose.yml can be read by the tools that will read it. No image was built here."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GIVEN = {
    "ALLOWED_HOSTS": "headroom.example.org",
    "BASE_URL": "https://headroom.example.org",
    "HEADROOM_KEYS": "/etc/headroom/keys",
    "HEADROOM_SECRETS": "/etc/headroom/secrets",
}
compose = pytest.mark.needs("docker-compose", "apt install docker-compose")


def compose_config(given: dict[str, str]) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name not in GIVEN}
    command = ["docker-compose", "--profile", "gpu", "config"]
    return subprocess.run(command, cwd=ROOT, env=plain | given, capture_output=True, text=True, check=False)


@compose
def test_a_compose_client_accepts_the_file_and_sees_five_services_and_the_gpu_worker():
    done = compose_config(GIVEN)
    assert done.returncode == 0, done.stderr
    services = re.search(r"^services:\n(.*?)^\S", done.stdout, re.MULTILINE | re.DOTALL)
    assert services
    assert sorted(re.findall(r"^  ([\w-]+):$", services[1], re.MULTILINE)) == [
        "gpu-worker", "postgres", "redis", "scheduler", "web", "worker",
    ]  # fmt: skip
    assert re.search(r"capabilities:\n\s+- gpu", done.stdout)
    assert services[1].count("healthcheck:") == 6


@compose
@pytest.mark.parametrize("name", sorted(GIVEN))
def test_without_a_value_that_has_no_default_compose_says_what_to_give(name: str):
    done = compose_config({key: value for key, value in GIVEN.items() if key != name})
    assert done.returncode != 0
    assert re.search(r"(host names|https address|a folder)", done.stderr), done.stderr


def test_no_secret_stands_in_the_compose_file_and_every_secret_is_a_file():
    text = (ROOT / "docker-compose.yml").read_text()
    assert re.findall(r"(?i)(?:password|secret_key|token): *[\"']?[A-Za-z0-9]", text) == []
    assert len(re.findall(r"^    file: \$\{HEADROOM_SECRETS:\?", text, re.MULTILINE)) == 5


def test_secrets_are_made_once_in_a_folder_for_its_owner_only(tmp_path: Path):
    folder = tmp_path / "secrets"
    command = [sys.executable, str(ROOT / "deploy" / "make-secrets"), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    first = {p.name: p.read_text() for p in folder.iterdir()}
    subprocess.run(command, check=True, capture_output=True)
    assert {p.name: p.read_text() for p in folder.iterdir()} == first
    assert set(first) == {"secret-key", "postgres-password", "redis-password", "database-url", "broker-url"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert first["postgres-password"] in first["database-url"]


@pytest.mark.needs("systemd-analyze", "apt install systemd")
def test_systemd_accepts_the_worker_unit(tmp_path: Path):
    # Only its program does not stand on this machine, so the check runs on a copy that names one that does.
    unit = (ROOT / "deploy" / "headroom-worker@.service").read_text()
    copy = tmp_path / "headroom-worker@.service"
    copy.write_text(unit.replace("/opt/headroom/.venv/bin/python", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    mine = [line for line in done.stderr.splitlines() if "headroom" in line]
    assert mine == []


def test_the_worker_unit_is_closed_to_all_it_does_not_need():
    unit = (ROOT / "deploy" / "headroom-worker@.service").read_text()
    wanted = {
        "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "CapabilityBoundingSet=",
        "DevicePolicy=closed", "DeviceAllow=char-nvidia rw", "SystemCallFilter=@system-service", "UMask=0077",
    }  # fmt: skip
    assert wanted - set(unit.splitlines()) == set()


def test_the_deployment_check_is_clean_with_the_documented_environment_and_no_migration_is_missing():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.deploy_check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
