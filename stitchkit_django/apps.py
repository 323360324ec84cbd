"""The app's configuration; no behaviour."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StitchkitConfig(AppConfig):
    """Durable AI-agent conversations and runs."""

    name = "stitchkit_django"
    label = "stitchkit_django"
    verbose_name = _("agent conversations")
    default_auto_field = "django.db.models.BigAutoField"
