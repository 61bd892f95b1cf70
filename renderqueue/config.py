"""Settings of one process, typed and checked at boot with every error at once.

What an operator changes while the fleet runs (the keeper's window, shares, pauses) is not here but in the
database: `renderqueue.models.FleetPolicy`. What is here needs a restart.
"""

from __future__ import annotations

import secrets
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

ENV_PREFIX = "RENDERQUEUE_"
NETWORK_LIMITS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""For every connection to the database: one that a network cut swallowed fails within half a minute (trap 50)."""
PROJECT_ROOT = Path(__file__).resolve().parent.parent


class ConfigError(Exception):
    """One or more settings are wrong; the message lists all of them, one a line."""


def _split_commas(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaList = Annotated[list[str], NoDecode, BeforeValidator(_split_commas)]


class Config(BaseSettings):
    """Every setting with its default. Names in the environment carry the prefix RENDERQUEUE_, except the two
    that the field spells without one: DATABASE_URL and BROKER_URL."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="ignore", populate_by_name=True)

    secret_key: str = Field(default="", description="Signs sessions; at least 32 characters.")
    debug: bool = Field(default=False, description="Django's debug pages; never on a public address.")
    allowed_hosts: CommaList = Field(
        default=["127.0.0.1", "localhost", "[::1]"], description="Hosts under which the console answers."
    )
    public_url: str = Field(
        default="http://127.0.0.1:8000", pattern=r"^https?://", description="Where people reach the console."
    )
    data_dir: Path = Field(
        default=PROJECT_ROOT / "var", description="Embedded Postgres, broker folder and logs of this machine."
    )

    database_url: str = Field(
        default="",
        validation_alias=AliasChoices("DATABASE_URL", "database_url"),
        pattern=r"^(postgres(ql)?://.*)?$",
        description="PostgreSQL 15 or later. Empty only for the supervisor, which then starts its own.",
    )
    feed_database_url: str = Field(
        default="",
        pattern=r"^(postgres(ql)?://.*)?$",
        description="A direct URL for LISTEN when DATABASE_URL goes through a pooler; empty: the same.",
    )
    broker_url: str = Field(
        default="filesystem://",
        validation_alias=AliasChoices("BROKER_URL", "broker_url"),
        pattern=r"^(filesystem|redis|rediss)://",
        description="Celery's broker: filesystem:// (one machine) or redis://.",
    )

    chromium_path: str = Field(default="", description="The browser; empty: look for one.")
    pool_size: int = Field(default=2, ge=1, le=256, description="Pages rendered at once by this node.")
    prefetch_extra: int = Field(
        default=2, ge=0, le=64, description="Pages leased beyond the pool, ready to start (D14)."
    )
    lease_s: float = Field(default=60.0, ge=3.0, le=3600.0, description="Length of a lease, seconds.")
    render_timeout_s: float = Field(
        default=20.0, ge=1.0, le=300.0, description="Most a page may take on one device, seconds."
    )
    grace_s: float = Field(
        default=30.0, ge=0.0, le=600.0, description="How long SIGTERM waits for renders in flight, seconds."
    )

    @property
    def feed_url(self) -> str:
        return self.feed_database_url or self.database_url

    @property
    def prefetch_bound(self) -> int:
        """Most pages this node has leased at once: the pool and a little more (D14)."""
        return self.pool_size + self.prefetch_extra


def load_config(**overrides: Any) -> Config:
    """Read the environment. Raises ConfigError that names every wrong setting, its value and the rule."""
    try:
        loaded = Config(**overrides)
    except ValidationError as error:
        raise ConfigError(_describe(error)) from None
    if loaded.secret_key and len(loaded.secret_key) < 32:
        raise ConfigError(f"{ENV_PREFIX}SECRET_KEY is shorter than 32 characters; make a longer one.")
    return loaded


@cache
def config() -> Config:
    """The process's settings, read once."""
    return load_config()


def ephemeral_secret_key() -> str:
    """A key for processes that sign nothing that must outlive them (tests, commands, workers)."""
    return secrets.token_urlsafe(48)


def _describe(error: ValidationError) -> str:
    lines = ["These settings are wrong (environment variables):"]
    for problem in error.errors():
        name = str(problem["loc"][0]) if problem["loc"] else "?"
        variable = name if name in ("DATABASE_URL", "BROKER_URL") else f"{ENV_PREFIX}{name.upper()}"
        rule = Config.model_fields[name.lower()].description if name.lower() in Config.model_fields else ""
        lines.append(f"  {variable} = {problem.get('input')!r}: {problem['msg']}. ({rule})")
    return "\n".join(lines)
