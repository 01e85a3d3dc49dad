"""For all tests: the product's settings in a folder of their own (tests/settings.py), thrown away at the end."""

from __future__ import annotations

import os

# Processes that a test starts use the product's settings, in the folder that HEADROOM_VAR already names.
os.environ["DJANGO_SETTINGS_MODULE"] = "capacity.settings"
