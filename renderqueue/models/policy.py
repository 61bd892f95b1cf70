"""What an operator changes while the fleet runs."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q


def default_min_share() -> dict[str, float]:
    return {"submitted": 0.25, "discovered": 0.10, "cold": 0.02}


def validate_min_share(value: object) -> None:
    """Shares of the classes below urgent: each 0 to 1, together below 1 (O3)."""
    if not isinstance(value, dict) or set(value) != {"submitted", "discovered", "cold"}:
        raise ValidationError("Name exactly submitted, discovered and cold, each with a share.")
    if any(not isinstance(share, int | float) or not 0 <= share < 1 for share in value.values()):
        raise ValidationError("Each share is a number from 0 to below 1.")
    if sum(value.values()) >= 1:
        raise ValidationError("The shares must leave room for urgent pages: their sum must be below 1.")


class FleetPolicy(models.Model):
    """One row, read by every node; a change reaches them through the settings channel within a second."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    window_s = models.PositiveIntegerField(
        default=0, help_text="The keeper holds pages due within this many seconds; 0 holds all."
    )
    verify_interval_s = models.PositiveIntegerField(
        default=3600, help_text="Seconds between verification walks; 0: none without a window."
    )
    cold_after = models.PositiveSmallIntegerField(
        default=3,
        validators=[MinValueValidator(1), MaxValueValidator(100)],
        help_text="Page-level failures in a row that make a page cold.",
    )
    # Stored and checked; the order does not reserve shares yet.
    min_share = models.JSONField(default=default_min_share, validators=[validate_min_share])
    paused = models.BooleanField(default=False)
    paused_generation = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="policy_one_row"),
            models.CheckConstraint(condition=Q(cold_after__gte=1), name="policy_cold_after_positive"),
        ]
        verbose_name = verbose_name_plural = "fleet policy"

    def __str__(self) -> str:
        return "fleet policy"
