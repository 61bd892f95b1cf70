"""Bring the database up to date: `python -m renderqueue.supervisor.database_setup`. Needs DATABASE_URL.

Applies the migrations and makes an operator if there is none. Standard output carries the new operator's name
and password on one line, or nothing; everything else goes to standard error.
"""

from __future__ import annotations

import os
import secrets
import sys

OPERATOR = "operator"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", interactive=False, stdout=sys.stderr)
    if password := make_operator():
        print(OPERATOR, password)


def make_operator() -> str | None:
    """Make the first operator. Returns its password, or None if there is one already."""
    from django.contrib.auth import get_user_model

    users = get_user_model().objects
    if users.filter(is_superuser=True, is_active=True).exists() or users.filter(username=OPERATOR).exists():
        return None
    password = secrets.token_urlsafe(12)
    users.create_superuser(username=OPERATOR, password=password)
    return password


if __name__ == "__main__":
    main()
