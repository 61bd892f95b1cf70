"""Signing in and out."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpResponse

from console import throttle


class SignInForm(AuthenticationForm):
    """Django's form behind the throttle: after too many failures no password is looked at."""

    throttled = False

    def clean(self) -> dict[str, Any]:
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        name = self.cleaned_data.get("username") or ""
        if throttle.is_blocked(address, name):
            self.throttled = True
            minutes = throttle.WINDOW_S // 60
            raise ValidationError(f"Too many failed attempts. Wait {minutes} minutes, then try again.")
        try:
            cleaned = super().clean()
        except ValidationError:
            throttle.note_failure(address, name)
            raise
        throttle.forget(address, name)
        return cleaned


class SignInView(LoginView):
    template_name = "console/sign_in.html"
    authentication_form = SignInForm

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        if isinstance(form, SignInForm) and form.throttled:
            response.status_code = 429
            response.headers["Retry-After"] = str(throttle.WINDOW_S)
        return response


class SignOutView(LogoutView):
    http_method_names = ["post", "options"]
