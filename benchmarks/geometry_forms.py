"""The part of a runtime's form that says what its model needs: a config.json or the first bytes of a GGUF file.

The file is read and not kept; its geometry is, with the file's name and SHA-256.
"""

from __future__ import annotations

from typing import Any

import msgspec
from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from benchmarks.imports.corpora import corpus_fault
from benchmarks.memory import reading
from benchmarks.memory.geometry import Geometry, UnknownGeometryError, as_json, from_json
from benchmarks.memory.prediction import GIB

PASTED = "pasted config.json"
_MIB = 1 << 20


class GeometryFields(forms.Form):
    """Fields beside those of the runtime's row, of which they fill `geometry` and `geometry_source`."""

    geometry_file = forms.FileField(
        label=_("Model's file"),
        required=False,
        help_text=format_lazy(
            _("Its config.json, or the first {most} MiB of its GGUF file. Read, not kept."),
            most=reading.MOST_BYTES // _MIB,
        ),
        error_messages={"empty": _("This file is empty.")},
        widget=forms.FileInput(attrs={"accept": ".json,.gguf", "data-head-bytes": str(reading.MOST_BYTES)}),
    )
    geometry_text = forms.CharField(
        label=_("Or its config.json as text"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    weights_gib = forms.FloatField(
        label=_("Weights"),
        required=False,
        min_value=0.001,
        max_value=100_000,
        help_text=_("Size of the weight files together. A whole GGUF header tells it itself."),
    )
    geometry_forget = forms.BooleanField(
        label=_("Forget what is kept of the model's file"),
        required=False,
        help_text=_("Such as after a change of the model."),
    )

    instance: Any
    cleaned_data: dict[str, Any]

    def settle_geometry(self) -> None:
        """What is kept already stays unless something is given; without anything kept there is nothing to forget."""
        kept = self.instance.geometry
        if not kept:
            del self.fields["geometry_forget"]
        self.fields["weights_gib"].widget.attrs.update({"data-unit": "GiB", "step": "any"})
        if kept and isinstance(size := kept.get("weights_bytes"), int):
            self.initial.setdefault("weights_gib", round(size / GIB, 3))

    def read_geometry(self, cleaned: dict[str, Any]) -> None:
        """Puts the geometry into the cleaned values, or says beside the field why it is not known."""
        cleaned["geometry"], cleaned["geometry_source"] = self.instance.geometry, self.instance.geometry_source
        if cleaned.get("geometry_forget"):
            cleaned["geometry"], cleaned["geometry_source"] = None, ""
        field, name, content = self._given(cleaned)
        if content is not None and not self._read(cleaned, field, name, content):
            return
        size = cleaned.get("weights_gib")
        if size is None or ("weights_gib" not in self.changed_data and content is not None):
            return
        if not cleaned["geometry"]:
            self.add_error(
                "weights_gib", gettext("The size of the weights says little without the model's file: give both.")
            )
            return
        geometry = from_json(cleaned["geometry"])
        if geometry.weights_bytes is None or "weights_gib" in self.changed_data:
            cleaned["geometry"] = as_json(msgspec.structs.replace(geometry, weights_bytes=round(size * GIB)))

    def _given(self, cleaned: dict[str, Any]) -> tuple[str, str, bytes | None]:
        """(field, name, bytes) of what was uploaded or pasted; None where nothing was."""
        file: UploadedFile[bytes] | None = cleaned.get("geometry_file")
        text: str = cleaned.get("geometry_text") or ""
        if file is not None and text.strip():
            self.add_error("geometry_text", gettext("Give the file or its text, not both."))
            return "geometry_text", "", None
        if file is not None:
            return "geometry_file", str(file.name), file.read(reading.MOST_BYTES + 1)
        return "geometry_text", PASTED, text.encode() if text.strip() else None

    def _read(self, cleaned: dict[str, Any], field: str, name: str, content: bytes) -> bool:
        if len(content) > reading.MOST_BYTES:
            self.add_error(
                field,
                gettext(
                    "This file has more than %(value)s MiB. Give only its beginning, such as from "
                    "head -c %(value)sM model.gguf > head.gguf."
                )
                % {"value": reading.MOST_BYTES // _MIB},
            )
            return False
        if fault := corpus_fault(content):
            self.add_error(field, fault)
            return False
        try:
            found: Geometry = reading.geometry_of(content)
        except UnknownGeometryError as error:
            self.add_error(field, str(error))
            return False
        cleaned["geometry"], cleaned["geometry_source"] = as_json(found), reading.source_line(name, content)
        return True
