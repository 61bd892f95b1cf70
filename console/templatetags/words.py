"""The words of `console.words` in templates, and instants as <time>."""

from __future__ import annotations

import datetime as dt

from django import template
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from console import words

register = template.Library()

register.filter("duration", words.duration)
register.filter("lateness", words.lateness)
register.filter("pages", words.pages)
register.filter("bytes_size", words.size)


@register.filter
def number(value: int | None) -> str:
    """With thousands separators; nothing known is said so, never 0 (trap 14)."""
    return "?" if value is None else f"{value:,}"


@register.filter
def breakable(url: str) -> SafeString:
    """A URL that may go on in the next line after each slash."""
    parts = url.split("/")
    return format_html_join("", "{}{}", ((part, mark_safe("/<wbr>")) for part in parts[:-1])) + escape(parts[-1])


@register.simple_tag
def moment(value: dt.datetime | None, now: dt.datetime, absent: str = "never") -> str | SafeString:
    """An instant as relative text; its exact time in UTC is in the title."""
    if value is None:
        return absent
    return _time(value, words.relative((value - now).total_seconds()))


@register.simple_tag
def clock(value: dt.datetime | None, now: dt.datetime, absent: str = "") -> str | SafeString:
    """An instant as the time of day in UTC, with the date if that is not today."""
    if value is None:
        return absent
    utc = value.astimezone(dt.UTC)
    return _time(value, utc.strftime("%H:%M" if utc.date() == now.astimezone(dt.UTC).date() else "%-d %b %H:%M"))


def _time(value: dt.datetime, text: str) -> SafeString:
    utc = value.astimezone(dt.UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        utc.strftime("%Y-%m-%d %H:%M:%S UTC"),
        text,
    )
