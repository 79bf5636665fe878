"""Runs on disk and in object stores."""
