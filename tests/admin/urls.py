"""Two admin sites, for the tests."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from tests.admin.sites import support

urlpatterns = [
    path("admin/", admin.site.urls),
    path("support/", support.urls),
]
