"""Tests on a GPU that is not there, which ``tests/test_fake_device.py`` runs in their own process."""
