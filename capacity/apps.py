"""The judging app; loads Celery, the start-up checks and, for looking at, the pseudo-language."""

from django.apps import AppConfig


class CapacityConfig(AppConfig):
    name = "capacity"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.conf import settings

        from capacity import celery, checks, pseudo  # noqa: F401

        if settings.DEBUG:
            pseudo.install()
