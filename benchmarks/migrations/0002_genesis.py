"""The first link of the audit chain, so that every writer finds a row to lock, the very first one too."""

from django.db import migrations
from django.utils import timezone

from benchmarks import audit


def begin(apps, _schema_editor):
    Event = apps.get_model("benchmarks", "Event")
    if Event.objects.exists():
        return
    event = Event(
        sequence=1, at=timezone.now(), actor="system", verb="began", subject="audit chain", changes={},
        previous_hash=audit.GENESIS,
    )  # fmt: skip
    event.hash = audit.hash_of(event)
    event.save(force_insert=True)


class Migration(migrations.Migration):
    dependencies = [("benchmarks", "0001_initial")]

    operations = [migrations.RunPython(begin, migrations.RunPython.noop)]
