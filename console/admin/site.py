"""The admin site's door and its Content-Security-Policy (D18b)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.utils.csp import CSP
from django.utils.http import urlencode
from django.views.decorators.csp import csp_override

View = Callable[..., HttpResponseBase]

# Unfold's Alpine evaluates its attributes and its skeleton carries one inline <style>; scripts stay files.
RECORDS_CSP: dict[str, Any] = {
    **settings.SECURE_CSP,
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
}


def sign_in(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:
    """One door for everybody: the console's form, which is throttled."""
    then = request.GET.get("next") or reverse("admin:index")
    return HttpResponseRedirect(f"{reverse('console:sign-in')}?{urlencode({'next': then})}")


def prepare(site: admin.AdminSite) -> None:
    """Give every view of the admin the looser policy, and it alone."""
    plain = site.admin_view

    def admin_view(view: View, cacheable: bool = False) -> View:
        loosened: View = csp_override(RECORDS_CSP)(plain(view, cacheable))
        return loosened

    site.admin_view = admin_view  # type: ignore[method-assign, assignment]
    site.login = sign_in  # type: ignore[method-assign, assignment]
