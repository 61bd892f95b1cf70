#!/usr/bin/env python
"""Django's command line."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renderqueue.settings")
    from django.core.management import execute_from_command_line

    from renderqueue.config import ConfigError

    try:
        execute_from_command_line(sys.argv)
    except ConfigError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
