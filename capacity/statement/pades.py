"""The PDF's own signature (PAdES, ECDSA P-256) and a reader that accepts one byte form of it only.

pyHanko signs. Reading is ours and strict, because general readers take some changed bytes in the CMS container: the
whole file must be covered, and the CMS is built again from leaf certificate, signed attributes and signature and compared.
"""

from __future__ import annotations

import hashlib
import io
import re
from datetime import datetime

import msgspec
from asn1crypto import algos, cms, core, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.misc import PdfError
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.pdf_utils.writer import BasePdfFileWriter
from pyhanko.sign import signers
from pyhanko.sign.fields import SigSeedSubFilter
from pyhanko.sign.signers.pdf_signer import PdfSigningSession
from pyhanko_certvalidator.registry import SimpleCertificateStore

from capacity.statement.keys import KeySet

FIELD = "Statement"
RESERVED_DIGITS = 8192
_CONTENT_TYPE, _MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"
# What asn1crypto raises, depending on which byte is wrong.
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
_TRAILER = re.compile(rb"/ByteRange \[(\d{1,10}) (\d{1,10}) (\d{1,10}) (\d{1,10})\s*\]")


class PdfSignatureError(ValueError):
    """The PDF is not one that this product signed, or it was changed."""


class Signed(msgspec.Struct, frozen=True):
    """What a whole and rightly signed PDF holds: the leaf that signed it, its attachments by name, and its keywords,
    where the printed digest stands for machines."""

    leaf: x509.Certificate
    attachments: dict[str, bytes]
    keywords: str


class _Hole(msgspec.Struct, frozen=True):
    """The signature's place in the file: signed bytes before and after, and the hexadecimal digits between."""

    before: bytes
    after: bytes
    digits: bytes


def sign_pdf(pdf: bytes, keyset: KeySet, *, at: datetime, reason: str) -> bytes:
    """`pdf` with an appended PAdES signature by the key set's leaf. The input stays as the file's beginning."""
    leaf = asn1_x509.Certificate.load(keyset.entry.leaf().public_bytes(serialization.Encoding.DER))
    signer = _LeafSigner(signing_cert=leaf, cert_registry=_no_others())
    signer.leaf_key = keyset.leaf_key
    meta = signers.PdfSignatureMetadata(
        field_name=FIELD, md_algorithm="sha256", subfilter=SigSeedSubFilter.PADES, reason=reason
    )
    session_signer = _TimedPdfSigner(meta, signer)
    session_signer.at = at
    out = session_signer.sign_pdf(IncrementalPdfFileWriter(io.BytesIO(pdf)), bytes_reserved=RESERVED_DIGITS)
    return bytes(out.getbuffer())


def read_signed_pdf(data: bytes) -> Signed:
    """Leaf and attachments of a PDF that is signed once, whole, in canonical form. Raises PdfSignatureError otherwise.

    The leaf is not judged here: the caller looks it up in the keyring.
    """
    hole = _hole(data)
    signature = _signature_bytes(hole)
    try:
        signed = cms.ContentInfo.load(signature, strict=True)["content"]
        leaf_der = signed["certificates"][0].chosen.dump()
        info = signed["signer_infos"][0]
        attributes, raw = info["signed_attrs"], info["signature"].native
        leaf = x509.load_der_x509_certificate(leaf_der)
        _check_attributes(attributes, leaf_der, hashlib.sha256(hole.before + hole.after).digest())
        if _rebuilt(leaf_der, attributes, raw) != signature:
            raise PdfSignatureError("The signature container is not in canonical form.")
        _verify(leaf, attributes, raw)
    except (*_UNREADABLE, InvalidSignature) as error:
        raise _as_refusal(error) from error
    return _content(data, leaf)


class _LeafSigner(signers.Signer):
    """Signs with an ECDSA P-256 key in memory; deterministic, so one input has one signature."""

    leaf_key: ec.EllipticCurvePrivateKey

    async def async_sign_raw(self, data: bytes, digest_algorithm: str, dry_run: bool = False) -> bytes:  # noqa: ARG002
        return self.leaf_key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


class _TimedPdfSigner(signers.PdfSigner):
    """A PDF signer whose clock is an argument."""

    at: datetime

    def init_signing_session(self, pdf_out: BasePdfFileWriter, existing_fields_only: bool = False) -> PdfSigningSession:
        session = super().init_signing_session(pdf_out, existing_fields_only=existing_fields_only)
        session.system_time = self.at
        return session


def _no_others() -> SimpleCertificateStore:
    """The leaf stands alone in the container: verifiers have the root in their keyring."""
    store: SimpleCertificateStore = SimpleCertificateStore()  # type: ignore[no-untyped-call]
    return store


def _hole(data: bytes) -> _Hole:
    """Finds the one signature and checks that it covers every other byte of the file."""
    found = _TRAILER.findall(data)
    if len(found) != 1:
        raise PdfSignatureError("The file is not a PDF with one signature.")
    start, length, resume, rest = (int(number) for number in found[0])
    whole = start == 0 and length < resume and resume + rest == len(data)
    if not whole or data[length : length + 1] != b"<" or data[resume - 1 : resume] != b">":
        raise PdfSignatureError("The signature does not cover the whole file.")
    return _Hole(before=data[:length], after=data[resume:], digits=data[length + 1 : resume - 1])


def _signature_bytes(hole: _Hole) -> bytes:
    """The CMS in the hole, which must be upper-case hexadecimal padded with zeros and nothing else."""
    try:
        padded = bytes.fromhex(hole.digits.decode("ascii"))
        size = len(cms.ContentInfo.load(padded).dump())
    except _UNREADABLE as error:
        raise PdfSignatureError("The signature is not readable.") from error
    signature = padded[:size]
    if hole.digits != signature.hex().upper().encode() + b"0" * (len(hole.digits) - 2 * size):
        raise PdfSignatureError("The signature is not in canonical form.")
    return signature


def _rebuilt(leaf_der: bytes, attributes: cms.CMSAttributes, raw: bytes) -> bytes:
    """The CMS that this product writes around these three parts, as bytes."""
    leaf = asn1_x509.Certificate.load(leaf_der, strict=True)
    sha256 = algos.DigestAlgorithm({"algorithm": "sha256"})
    values = list(attributes)
    info = cms.SignerInfo(
        {
            "version": "v1",
            "sid": cms.SignerIdentifier(
                {
                    "issuer_and_serial_number": cms.IssuerAndSerialNumber(
                        {"issuer": leaf.issuer, "serial_number": leaf.serial_number}
                    )
                }
            ),
            "digest_algorithm": sha256,
            "signature_algorithm": algos.SignedDigestAlgorithm({"algorithm": "sha256_ecdsa"}),
            "signed_attrs": cms.CMSAttributes([cms.CMSAttribute.load(value.dump(), strict=True) for value in values]),
            "signature": _canonical_ecdsa(raw),
        }
    )
    signed = cms.SignedData(
        {
            "version": "v1",
            "digest_algorithms": cms.DigestAlgorithms((sha256,)),
            "encap_content_info": {"content_type": "data"},
            "certificates": [leaf],
            "signer_infos": [info],
        }
    )
    return bytes(cms.ContentInfo({"content_type": cms.ContentType("signed_data"), "content": signed}).dump())


def _canonical_ecdsa(raw: bytes) -> bytes:
    """An ECDSA signature in the one DER form of its two numbers."""
    numbers = algos.DSASignature.load(raw, strict=True)
    return bytes(algos.DSASignature({"r": numbers["r"].native, "s": numbers["s"].native}).dump())


def _check_attributes(attributes: cms.CMSAttributes, leaf_der: bytes, digest: bytes) -> None:
    """The signed attributes are the three that PAdES asks for, once each, and name this file and this leaf."""
    by_type = {attribute["type"].dotted: attribute["values"] for attribute in attributes}
    if len(by_type) != len(attributes) or set(by_type) != {_CONTENT_TYPE, _MESSAGE_DIGEST, _SIGNING_CERTIFICATE}:
        raise PdfSignatureError("The signature's attributes are not those that this product writes.")
    if by_type[_CONTENT_TYPE][0].native != "data" or by_type[_MESSAGE_DIGEST][0].native != digest:
        raise PdfSignatureError("The file was changed after it was signed.")
    certificate = tsp.SigningCertificateV2.load(by_type[_SIGNING_CERTIFICATE][0].dump(), strict=True)["certs"][0]
    if certificate["cert_hash"].native != hashlib.sha256(leaf_der).digest():
        raise PdfSignatureError("The signature names another certificate.")


def _verify(leaf: x509.Certificate, attributes: cms.CMSAttributes, raw: bytes) -> None:
    key = leaf.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise PdfSignatureError("The certificate does not hold a P-256 key.")
    signed = attributes.untag() if isinstance(attributes, core.Asn1Value) else attributes
    key.verify(raw, signed.dump(), ec.ECDSA(hashes.SHA256()))


def _content(data: bytes, leaf: x509.Certificate) -> Signed:
    """What the file carries; read only after the signature was found to be right."""
    try:
        reader = PdfFileReader(io.BytesIO(data), strict=True)
        names = reader.root["/Names"]["/EmbeddedFiles"]["/Names"]
        places = range(0, len(names), 2)
        files = {str(names[place]): bytes(names[place + 1]["/EF"]["/F"].data) for place in places}
        keywords = str(reader.trailer["/Info"]["/Keywords"])
    except (PdfError, KeyError, IndexError, TypeError, ValueError) as error:
        raise PdfSignatureError("The PDF carries no signed statement.") from error
    return Signed(leaf=leaf, attachments=files, keywords=keywords)


def _as_refusal(error: Exception) -> PdfSignatureError:
    if isinstance(error, PdfSignatureError):
        return error
    if isinstance(error, InvalidSignature):
        return PdfSignatureError("The PDF's signature does not fit its content.")
    return PdfSignatureError("The PDF's signature is not readable.")
