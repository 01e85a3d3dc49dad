"""Settings, all of them. Without environment variables: SQLite and Celery on files under var/, for one machine.

DATABASE_URL=postgres://… and BROKER_URL=redis://… switch to real services; nothing else in the code asks which is active.
Secrets come from the environment or, where it ends in _FILE, from the file it names.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from pathlib import Path

import environ
from csp.constants import SELF

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.FileAwareEnv()

VERSION = "0.1.0"
VAR = Path(env.str("HEADROOM_VAR", default=str(BASE_DIR / "var")))
DEBUG = env.bool("DEBUG", default=False)


def _kept_secret(name: str) -> str:
    """A random secret kept in a file of mode 600 under var/, for the embedded default."""
    path = VAR / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Web and worker start together: one of them makes the secret, and the file appears whole.
        with (path.parent / f"{name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _write_secret(path)
    return path.read_text().strip()


def _write_secret(path: Path) -> None:
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(50))
    Path(beside).replace(path)


SECRET_KEY = env.str("SECRET_KEY", default="") or _kept_secret("secret-key")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
BASE_URL = env.str("BASE_URL", default="http://127.0.0.1:8000").rstrip("/")

# --- database: the queue of record -----------------------------------------------------------------------------------
DATABASE_URL = env.str("DATABASE_URL", default="")
if DATABASE_URL:
    DATABASES = {"default": env.db_url_config(DATABASE_URL)}
    DATABASES["default"].setdefault("CONN_MAX_AGE", 60)
    DATABASES["default"].setdefault("CONN_HEALTH_CHECKS", True)
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": VAR / "headroom.sqlite3",
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
            },
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# What is drawn of a grid is kept by what it was drawn from, in a cache of its own: nothing else is pushed out by it.
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "figures": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "figures",
        "OPTIONS": {"MAX_ENTRIES": 600},
    },
}

# --- Celery: doorbells only ------------------------------------------------------------------------------------------
BROKER_URL = env.str("BROKER_URL", default="")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "office"
CELERY_TASK_SERIALIZER = "json"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"
_spool = VAR / "celery"
_spool.mkdir(parents=True, exist_ok=True)
CELERY_BEAT_SCHEDULE_FILENAME = str(_spool / "schedule")
if BROKER_URL:
    CELERY_BROKER_URL = BROKER_URL
    HARDWARE_QUEUE = env.str("HARDWARE_QUEUE", default="hardware-{slug}")
else:
    CELERY_BROKER_URL = "spool://"
    # Control messages go through shared files that kombu rewrites in place; nothing here needs them.
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
    for _name in ("queue", "control", "processed"):
        (_spool / _name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_spool / "queue"),
        "data_folder_out": str(_spool / "queue"),
        "control_folder": str(_spool / "control"),
        "processed_folder": str(_spool / "processed"),
        "store_processed": False,
        "polling_interval": 0.2,
    }
    HARDWARE_QUEUE = env.str("HARDWARE_QUEUE", default="hardware")

# A beat brings progress to the live page and a stop to the worker, so it is much quicker than staleness needs.
HEARTBEAT_S = env.float("HEADROOM_HEARTBEAT_S", default=1.0)
STALE_AFTER_S = env.float("HEADROOM_STALE_AFTER_S", default=60.0)
SWEEP_EVERY_S = env.float("HEADROOM_SWEEP_EVERY_S", default=5.0)
CELERY_BEAT_SCHEDULE = {
    "sweep": {
        "task": "benchmarks.tasks.sweep",
        "schedule": SWEEP_EVERY_S,
        "options": {"queue": "office", "expires": 60},
    },
    "keep-figures": {
        "task": "benchmarks.tasks.keep_figures",
        "schedule": 30.0,
        "options": {"queue": "office", "expires": 60},
    },
    "count-rows": {
        "task": "benchmarks.tasks.count_rows",
        "schedule": 3600.0,
        "options": {"queue": "office", "expires": 600},
    },
}
# What a worker may call, start and use is in its host's own file, which the operator writes on that host; the web never
# reads it. Without the file: the hosts listed here, loopback unless the operator says otherwise, and nothing to start.
HOST_FILE = Path(env.str("HEADROOM_HOST_FILE", default="/etc/headroom/worker.toml"))
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
TARGET_HOSTS = env.list("HEADROOM_TARGET_HOSTS", default=list(LOOPBACK_HOSTS))
# Where a UPS daemon (Network UPS Tools) may listen, on the host of the worker; its silence is told only where it is named.
NUT_ASKED_FOR = bool(env.str("HEADROOM_NUT", default=""))
NUT = env.str("HEADROOM_NUT", default="") or "127.0.0.1:3493"
# Where this host keeps the tokenizer.json files that runtimes pin by digest, for servers that count no tokens.
TOKENIZERS = Path(env.str("HEADROOM_TOKENIZERS", default="/etc/headroom/tokenizers"))
# Cores of this host that load generators pin themselves to, such as "2,3"; empty pins nothing.
CLIENT_CPUS = env.list("HEADROOM_CLIENT_CPUS", cast=int, default=[])
CLIENT_REALTIME = env.bool("HEADROOM_CLIENT_REALTIME", default=False)
# How this host reaches its targets, where the system's own certificates and a straight way do not do.
TARGET_CA_FILE = env.str("HEADROOM_TARGET_CA_PATH", default="")
TARGET_CLIENT_CERT_FILE = env.str("HEADROOM_TARGET_CLIENT_CERT_PATH", default="")
TARGET_CLIENT_KEY_FILE = env.str("HEADROOM_TARGET_CLIENT_KEY_PATH", default="")
TARGET_PROXY_URL = env.str("HEADROOM_TARGET_PROXY_URL", default="")
# What the load client's own error may be before a grid starts, at the 99th percentile; shown with every result.
CALIBRATION_LIMITS_MS = {
    "ttft_error_p99_ms": env.float("HEADROOM_CALIBRATION_TTFT_MS", default=2.0),
    "gap_error_p99_ms": env.float("HEADROOM_CALIBRATION_GAP_MS", default=1.0),
}

# --- applications ----------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "benchmarks.apps.BenchmarksConfig",
    "capacity.apps.CapacityConfig",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "capacity.language.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "benchmarks.uploads.UploadMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "csp.middleware.CSPMiddleware",
    "benchmarks.access.AccessMiddleware",
]
ROOT_URLCONF = "capacity.urls"
WSGI_APPLICATION = "capacity.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "benchmarks.access.page_context",
                "capacity.shell.side_bar",
            ]
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
INSTALLED_APPS.append("django.forms")

# --- people ----------------------------------------------------------------------------------------------------------
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

# --- words, time, files ----------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
# Each by its own name. The last one is made of the English texts, to see what a translator would not be offered.
LANGUAGES = [("en", "English"), ("ur", "اردو"), *([("en-xa", "Pseudo")] if DEBUG else [])]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "headroom_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
TIME_ZONE = env.str("TIME_ZONE", default="UTC")
USE_I18N = True
USE_TZ = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if not (DEBUG or env.bool("HEADROOM_PLAIN_STATIC", default=False))
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
# With this key the web signs each authorisation; every web server of one database needs the same file, and no worker.
WEB_KEY_FILE = Path(env.str("HEADROOM_WEB_KEY", default=str(VAR / "web-key")))
KEYS_DIR = Path(env.str("HEADROOM_KEYS", default=str(VAR / "keys")))
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024 * 1024

# --- security --------------------------------------------------------------------------------------------------------
BEHIND_TLS = env.bool("BEHIND_TLS", default=False)
SESSION_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_SECURE = BEHIND_TLS
LANGUAGE_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_HTTPONLY = False
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=31_536_000)
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SECURE_SSL_REDIRECT = env.bool("SSL_REDIRECT", default=True)
    SECURE_REDIRECT_EXEMPT = [r"^healthz/"]
# plotly adds one empty <style> and fills it through the CSSOM: the hash is that of the empty string.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src-elem": [SELF, "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"],
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "form-action": [SELF],
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="WARNING")},
    "loggers": {
        "benchmarks": {"level": env.str("LOG_LEVEL", default="INFO")},
        "capacity": {"level": env.str("LOG_LEVEL", default="INFO")},
    },
}
