"""The example's own tests, which `manage.py test` runs."""
