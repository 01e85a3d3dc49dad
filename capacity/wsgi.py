"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "capacity.settings")

application = get_wsgi_application()

# Only now are the models loaded. A web server that cannot sign authorisations says so when it starts, not to a host owner.
from benchmarks import signing  # noqa: E402

signing.web_public_key()
