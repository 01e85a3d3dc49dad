"""The Celery application. Tasks are doorbells: the database is the queue of record."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")

# The embedded default's broker (settings: spool://).
TRANSPORT_ALIASES["spool"] = "capacity.spool:Transport"

app = Celery("headroom")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
