"""The product's one settings module, with a folder of its own that is thrown away: a test never touches var/.

pytest-django reads the settings before any conftest.py, so what must be set first is set here.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

if "HEADROOM_TESTS" not in os.environ:
    home = tempfile.mkdtemp(prefix="headroom-tests-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in ("DATABASE_URL", "BROKER_URL"):
        kept = os.environ.pop(name, None)
        # `make test-services` starts PostgreSQL and Redis for the tests and names them so.
        if wanted := os.environ.get(f"TEST_{name}"):
            os.environ[name] = wanted
    for name in ("SECRET_KEY", "ALLOWED_HOSTS", "BEHIND_TLS", "DEBUG", "HEADROOM_KEYS", "BASE_URL"):
        os.environ.pop(name, None)
    (Path(home) / "static").mkdir()  # whitenoise warns where it is missing
    os.environ.update(
        HEADROOM_TESTS="1", HEADROOM_VAR=home, HEADROOM_PLAIN_STATIC="1", HEADROOM_HOST_FILE=f"{home}/worker.toml"
    )

from capacity.settings import *  # noqa: F403

# The product's own hasher takes a second per sign-in on purpose.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
