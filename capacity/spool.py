"""The embedded default's message broker: files, as kombu has it, with one mend.

kombu 5.7 opens a message under its final name and then writes it; a worker that looks in between reads an empty file and
ends with a JSONDecodeError (celery/kombu issue 1551, seen on a busy machine). Here a message is written beside and
renamed, so it appears whole or not at all.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from time import monotonic
from typing import Any

from kombu.transport import filesystem
from kombu.utils.encoding import str_to_bytes
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    def _put(  # type: ignore[override]  # the stubs leave out the keyword arguments that kombu passes
        self, queue: str, payload: dict[str, Any], **_kwargs: Any
    ) -> None:
        folder = Path(self.data_folder_out)
        name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        # A name that ends otherwise is nobody's queue.
        beside = folder / f"{name}.new"
        beside.write_bytes(str_to_bytes(dumps(payload)))
        os.replace(beside, folder / name)  # noqa: PTH105  (says what it is: one step)


class Transport(filesystem.Transport):
    Channel = Channel
