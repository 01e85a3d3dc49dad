"""The measuring app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class BenchmarksConfig(AppConfig):
    name = "benchmarks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from benchmarks import triggers

        post_migrate.connect(triggers.reinstall, dispatch_uid="benchmarks.triggers")
