"""Key files: mode 600 or refused, never overwritten, and an entry binds both of its keys."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from capacity.statement.keys import (
    KEYRING,
    KeyEntry,
    KeyFileError,
    Keyring,
    KeySet,
    load_keyring,
    load_keyset,
    make_keyset,
)
from tests.capacity.statement.documents import ISSUED

PRIVATE = ("ed25519.pem", "leaf-key.pem", "root-key.pem")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_keyset(tmp_path, name="demonstration", demonstration=True, now=ISSUED)
    return tmp_path / "demonstration"


@pytest.mark.parametrize("file", PRIVATE)
def test_private_files_are_for_their_owner_only(home: Path, file: str) -> None:
    assert stat.S_IMODE((home / file).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o601])
@pytest.mark.parametrize("file", ["ed25519.pem", "leaf-key.pem"])
def test_a_private_file_that_others_can_use_is_refused(home: Path, file: str, mode: int) -> None:
    (home / file).chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_keyset(home)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_of_its_owner_is_taken(home: Path, mode: int) -> None:
    (home / "ed25519.pem").chmod(mode)
    assert load_keyset(home).entry.name == "demonstration"


def test_signing_needs_no_root_key(home: Path) -> None:
    (home / "root-key.pem").unlink()
    assert load_keyset(home).entry.demonstration is True


@pytest.mark.parametrize("file", ["ed25519.pem", "leaf-key.pem", "entry.json"])
def test_a_missing_file_is_named(home: Path, file: str) -> None:
    (home / file).unlink()
    with pytest.raises(KeyFileError, match=r"missing|make_keys"):
        load_keyset(home)


def test_keys_are_never_overwritten(home: Path) -> None:
    with pytest.raises(KeyFileError, match="exists already"):
        make_keyset(home.parent, name="demonstration", demonstration=True, now=ISSUED)


@pytest.mark.parametrize("name", ["", "../up", "Big", "a b", "a/b", "-a", "x" * 61])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyFileError, match="name is"):
        make_keyset(tmp_path, name=name, demonstration=True, now=ISSUED)


def test_the_keyring_holds_public_halves_of_all_sets(home: Path) -> None:
    make_keyset(home.parent, name="lhr-2026-1", demonstration=False, now=ISSUED)
    keyring = load_keyring(home.parent / KEYRING)
    assert [(entry.name, entry.demonstration) for entry in keyring.keys] == [
        ("demonstration", True),
        ("lhr-2026-1", False),
    ]
    assert b"PRIVATE" not in (home.parent / KEYRING).read_bytes()
    assert load_keyring(home.parent) == keyring


def test_an_entry_that_joins_two_sets_is_refused(demonstration_keys: KeySet, real_keys: KeySet) -> None:
    one, other = demonstration_keys.entry, real_keys.entry
    for mixed in ({"ed25519": other.ed25519}, {"leaf_pem": other.leaf_pem}, {"root_pem": other.root_pem}):
        with pytest.raises(msgspec.ValidationError, match=r"does not hold|not bound|not issued"):
            msgspec.convert(msgspec.to_builtins(one) | mixed, KeyEntry)


@pytest.mark.parametrize("content", [b"", b"{}x", b'{"keys":[{}]}', b'{"unknown":1}', b"\xff"])
def test_a_damaged_keyring_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEYRING).write_bytes(content)
    with pytest.raises(KeyFileError, match="damaged"):
        load_keyring(tmp_path / KEYRING)


def test_an_empty_keyring_knows_nobody() -> None:
    assert Keyring().find("0" * 64) is None
    assert Keyring().public_key("0" * 64) is None


def test_a_key_set_does_not_show_its_secrets(demonstration_keys: KeySet) -> None:
    assert repr(demonstration_keys) == f"KeySet(demonstration, {demonstration_keys.entry.keyid[:12]})"
