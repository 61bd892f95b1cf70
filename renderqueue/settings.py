"""Django's settings, derived from `renderqueue.config`."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.utils.csp import CSP
from psycopg.conninfo import conninfo_to_dict

from renderqueue.config import NETWORK_LIMITS, PROJECT_ROOT, config, ephemeral_secret_key

_config = config()

BASE_DIR = PROJECT_ROOT
DEBUG = _config.debug
SECRET_KEY = _config.secret_key or ephemeral_secret_key()
ALLOWED_HOSTS = _config.allowed_hosts

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "django_htmx",
    "renderqueue.apps.RenderqueueConfig",
    "console.apps.ConsoleConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.csp.ContentSecurityPolicyMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "renderqueue.urls"
ASGI_APPLICATION = "renderqueue.asgi.application"

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
            ]
        },
    }
]


def _database(url: str) -> dict[str, Any]:
    """Django's form of a libpq URL; query parameters (sslmode, ...) become options."""
    parts = conninfo_to_dict(url or "postgresql:///renderqueue")
    known = {key: str(parts.pop(key, "") or "") for key in ("dbname", "user", "password", "host", "port")}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": known["dbname"],
        "USER": known["user"],
        "PASSWORD": known["password"],
        "HOST": known["host"],
        "PORT": known["port"],
        "CONN_MAX_AGE": 0,
        # A connection that a restart of the database broke is replaced before it is handed out.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **NETWORK_LIMITS,
            **parts,
            "pool": {"min_size": 1, "max_size": _config.pool_size + 12, "timeout": 10},
        },
    }


DATABASES = {"default": _database(_config.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "console:sign-in"
LOGIN_REDIRECT_URL = "console:overview"
LOGOUT_REDIRECT_URL = "console:sign-in"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
DATETIME_FORMAT = "Y-m-d H:i:s"

STATIC_URL = "static/"
STATIC_ROOT = _config.data_dir / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True

SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.NONE],
    "base-uri": [CSP.NONE],
}
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = _config.public_url.startswith("https://")
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE
CSRF_TRUSTED_ORIGINS = [_config.public_url.rstrip("/")]
X_FRAME_OPTIONS = "DENY"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"httpx": {"level": "WARNING"}, "httpcore": {"level": "WARNING"}},
}

UNFOLD = {
    "SITE_TITLE": "renderqueue records",
    "SITE_HEADER": "renderqueue records",
    "SITE_SYMBOL": "database",
    "SITE_URL": "/",
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("console/mark.svg")},
    ],
    # The console's teal.
    "COLORS": {
        "primary": {
            "50": "#effaf8",
            "100": "#d5f2ee",
            "200": "#aee5de",
            "300": "#7ccbc4",
            "400": "#3fbdb1",
            "500": "#14a89d",
            "600": "#0f766e",
            "700": "#0d625c",
            "800": "#0b4f4a",
            "900": "#093f3b",
            "950": "#052724",
        }
    },
}
