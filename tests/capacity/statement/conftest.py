"""One key set and one signed example for the whole module tree: making keys is slow, reading them is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacity.statement.issue import SignedStatement, issue
from capacity.statement.keys import KEYRING, Keyring, KeySet, load_keyring, load_keyset, make_keyset
from tests.capacity.statement.documents import ISSUED, document


@pytest.fixture(scope="session")
def keys_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    make_keyset(folder, name="demonstration", demonstration=True, now=ISSUED)
    make_keyset(folder, name="lhr-2026-1", demonstration=False, now=ISSUED)
    return folder


@pytest.fixture(scope="session")
def demonstration_keys(keys_folder: Path) -> KeySet:
    return load_keyset(keys_folder / "demonstration")


@pytest.fixture(scope="session")
def real_keys(keys_folder: Path) -> KeySet:
    return load_keyset(keys_folder / "lhr-2026-1")


@pytest.fixture(scope="session")
def keyring(keys_folder: Path) -> Keyring:
    return load_keyring(keys_folder / KEYRING)


@pytest.fixture(scope="session")
def signed(demonstration_keys: KeySet) -> SignedStatement:
    return issue(document(), demonstration_keys)
