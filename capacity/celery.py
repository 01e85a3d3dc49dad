"""The Celery application. Tasks are doorbells: the database is the queue of record."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")

app = Celery("headroom")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
