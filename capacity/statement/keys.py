"""Key sets that sign statements, and the keyring that verifiers take.

A key set is a folder: `ed25519.pem` signs the JSON statement, `leaf-key.pem` (ECDSA P-256) the PDF, `root-key.pem`
signed the leaf's certificate. Private files have mode 600 and are refused when others can read them. `keyring.json`
holds public halves only; each entry binds the Ed25519 key and the leaf, and the root says the same: the leaf's
certificate names the key id as a URI.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from capacity.statement.dsse import keyid_of

KEYRING = "keyring.json"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
LIFETIME = timedelta(days=5 * 365)


class KeyFileError(ValueError):
    """A key file is missing, readable by others, or not what it should be. The words say which and what to do."""


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public half of one key set. `ed25519` is the raw public key in base64; certificates are PEM."""

    keyid: str
    name: str
    demonstration: bool
    ed25519: str
    leaf_pem: str
    root_pem: str
    created_at: datetime
    revoked_at: datetime | None = None
    revoked_reason: str = ""

    def __post_init__(self) -> None:
        if keyid_of(self.public_key()) != self.keyid:
            raise ValueError(f"The keyring entry {self.name} does not hold the key that its id names.")
        _check_leaf(self)

    def public_key(self) -> Ed25519PublicKey:
        """The Ed25519 half."""
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(self.ed25519, validate=True))

    def leaf(self) -> x509.Certificate:
        """The certificate that signs PDFs."""
        return x509.load_pem_x509_certificate(self.leaf_pem.encode())

    def root(self) -> x509.Certificate:
        """The certificate that signed the leaf."""
        return x509.load_pem_x509_certificate(self.root_pem.encode())

    def public_pem(self) -> str:
        """The Ed25519 half as openssl reads it."""
        form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return self.public_key().public_bytes(*form).decode()


class Keyring(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All public keys that a verifier knows."""

    version: int = 1
    keys: tuple[KeyEntry, ...] = ()

    def find(self, keyid: str) -> KeyEntry | None:
        """The entry with this key id."""
        return next((entry for entry in self.keys if entry.keyid == keyid), None)

    def public_key(self, keyid: str) -> Ed25519PublicKey | None:
        """The Ed25519 key with this id."""
        entry = self.find(keyid)
        return entry.public_key() if entry else None

    def public_keys(self) -> tuple[Ed25519PublicKey, ...]:
        """Every Ed25519 key, revoked ones too."""
        return tuple(entry.public_key() for entry in self.keys)


class KeySet(msgspec.Struct, frozen=True, kw_only=True):
    """Private keys in memory with their public entry. Never stored, logged or shown."""

    entry: KeyEntry
    ed25519: Ed25519PrivateKey
    leaf_key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return f"KeySet({self.entry.name}, {self.entry.keyid[:12]})"


def make_keyset(folder: Path, *, name: str, demonstration: bool, now: datetime) -> KeyEntry:
    """Makes a key set in `folder`/`name` and adds it to `folder`/keyring.json; raises KeyFileError when it exists."""
    if not NAME.fullmatch(name):
        raise KeyFileError(
            "A key set's name is 1 to 60 lower-case letters, digits and hyphens, for example lhr-2026-1."
        )
    home = folder / name
    if home.exists():
        raise KeyFileError(f"{home} exists already; choose another name, keys are never overwritten.")
    folder.mkdir(parents=True, exist_ok=True)
    home.mkdir(mode=0o700)
    signing, leaf_key, root_key = Ed25519PrivateKey.generate(), _new_p256(), _new_p256()
    keyid = keyid_of(signing.public_key())
    label = f"{name}, demonstration only" if demonstration else name
    root = _certificate(f"{label}, root"[:64], root_key, now=now)
    leaf = _certificate(label[:64], leaf_key, now=now, issuer=root, issuer_key=root_key, keyid=keyid)
    _write_private(home / "ed25519.pem", _private_pem(signing))
    _write_private(home / "leaf-key.pem", _private_pem(leaf_key))
    _write_private(home / "root-key.pem", _private_pem(root_key))
    entry = KeyEntry(
        keyid=keyid,
        name=name,
        demonstration=demonstration,
        ed25519=base64.b64encode(signing.public_key().public_bytes_raw()).decode(),
        leaf_pem=_pem(leaf),
        root_pem=_pem(root),
        created_at=now,
    )
    (home / "entry.json").write_bytes(msgspec.json.format(msgspec.json.encode(entry), indent=1))
    (home / "ed25519.pub.pem").write_text(entry.public_pem())
    (home / "root.pem").write_text(entry.root_pem)
    _add_to_keyring(folder / KEYRING, entry)
    return entry


def load_keyset(home: Path) -> KeySet:
    """The key set in folder `home`; raises KeyFileError when a private file is missing or others can read it."""
    try:
        entry = msgspec.json.decode((home / "entry.json").read_bytes(), type=KeyEntry)
    except FileNotFoundError as error:
        raise KeyFileError(f"No key set in {home}; make one with `manage.py make_keys`.") from error
    except msgspec.DecodeError as error:
        raise KeyFileError(f"{home / 'entry.json'} is damaged: {error}") from error
    signing = serialization.load_pem_private_key(_read_private(home / "ed25519.pem"), password=None)
    leaf_key = serialization.load_pem_private_key(_read_private(home / "leaf-key.pem"), password=None)
    if not isinstance(signing, Ed25519PrivateKey) or keyid_of(signing.public_key()) != entry.keyid:
        raise KeyFileError(f"{home / 'ed25519.pem'} is not the key that entry.json names.")
    if not isinstance(leaf_key, ec.EllipticCurvePrivateKey) or leaf_key.public_key() != entry.leaf().public_key():
        raise KeyFileError(f"{home / 'leaf-key.pem'} does not fit the certificate in entry.json.")
    return KeySet(entry=entry, ed25519=signing, leaf_key=leaf_key)


def load_keyring(path: Path) -> Keyring:
    """The keyring in `path`, a file or the folder that holds keyring.json; raises KeyFileError when unreadable."""
    path = path / KEYRING if path.is_dir() else path
    try:
        return msgspec.json.decode(path.read_bytes(), type=Keyring)
    except FileNotFoundError as error:
        raise KeyFileError(
            f"No keyring at {path}; give one with --keyring, or make keys with `manage.py make_keys`."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KeyFileError(f"The keyring {path} is damaged: {error}") from error


def root_fingerprint(entry: KeyEntry) -> str:
    """SHA-256 of the root certificate, to compare by voice or on paper."""
    return entry.root().fingerprint(hashes.SHA256()).hex()


def _add_to_keyring(path: Path, entry: KeyEntry) -> None:
    old = load_keyring(path) if path.exists() else Keyring()
    new = Keyring(keys=(*old.keys, entry))
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(new), indent=1))
    beside.replace(path)


def _check_leaf(entry: KeyEntry) -> None:
    leaf, root = entry.leaf(), entry.root()
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if _key_uri(entry.keyid) not in names.get_values_for_type(x509.UniformResourceIdentifier):
        raise ValueError(f"The certificate of {entry.name} is not bound to its Ed25519 key.")
    try:
        leaf.verify_directly_issued_by(root)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise ValueError(f"The certificate of {entry.name} was not issued by its root.") from error


def _key_uri(keyid: str) -> str:
    return f"urn:headroom:ed25519:{keyid}"


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    now: datetime,
    issuer: x509.Certificate | None = None,
    issuer_key: ec.EllipticCurvePrivateKey | None = None,
    keyid: str = "",
) -> x509.Certificate:
    """A root (no issuer) or a leaf whose alternative name is the Ed25519 key id."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Headroom")]
    )
    start = now.astimezone(UTC).replace(microsecond=0) - timedelta(minutes=5)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + LIFETIME)
        .add_extension(
            x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None), critical=True
        )
        .add_extension(_usage(root=issuer is None), critical=True)
    )
    if keyid:
        uri = x509.UniformResourceIdentifier(_key_uri(keyid))
        builder = builder.add_extension(x509.SubjectAlternativeName([uri]), critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256())


def _usage(*, root: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not root,
        content_commitment=not root,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=root,
        crl_sign=root,
        encipher_only=False,
        decipher_only=False,
    )


def _new_p256() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _private_pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form)


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _read_private(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise KeyFileError(f"The private key {path} is missing.") from error
    if stat.S_IMODE(mode) & 0o077:
        raise KeyFileError(
            f"Others can read {path}: run `chmod 600 {path}`, and make new keys if that was so for a while."
        )
    return path.read_bytes()
