#!/usr/bin/env python
"""Django's command line, with this project's settings."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        sys.exit(f"Django is not installed here ({error}). Run `make run` once, or use .venv/bin/python manage.py.")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
