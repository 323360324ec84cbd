"""The app's configuration; registers the system checks and does nothing else."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StitchkitConfig(AppConfig):
    """Durable AI-agent conversations and runs."""

    name = "stitchkit_django"
    label = "stitchkit_django"
    verbose_name = _("agent conversations")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, which know the models."""
        from stitchkit_django.checks import register_checks  # noqa: PLC0415 - no models before

        register_checks()
