"""The door of every console view."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache

View = Callable[..., HttpResponseBase]


def signed_in(view: View) -> View:
    """Only for people who signed in; nobody else's cache keeps the answer. A part of a page that asks for itself
    after the session ended sends the whole page to the sign-in form, and back afterwards."""

    @never_cache
    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        if "HX-Request" in request.headers:
            page = urlsplit(request.headers.get("HX-Current-URL", "")).path or "/"
            return HttpResponse(status=204, headers={"HX-Redirect": _sign_in_url(page)})
        return HttpResponseRedirect(_sign_in_url(request.get_full_path()))

    return checked


def person(request: HttpRequest) -> AbstractBaseUser:
    """The signed-in person of a view behind `signed_in`."""
    assert isinstance(request.user, AbstractBaseUser)
    return request.user


def _sign_in_url(then: str) -> str:
    return f"{reverse('console:sign-in')}?{urlencode({'next': then})}"
