"""The measuring app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class BenchmarksConfig(AppConfig):
    name = "benchmarks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from benchmarks import triggers

        pre_migrate.connect(triggers.remove, dispatch_uid="benchmarks.triggers.remove")
        post_migrate.connect(triggers.reinstall, dispatch_uid="benchmarks.triggers")
