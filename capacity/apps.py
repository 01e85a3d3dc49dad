"""The judging app; loads Celery and the start-up checks."""

from django.apps import AppConfig


class CapacityConfig(AppConfig):
    name = "capacity"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from capacity import celery, checks  # noqa: F401
