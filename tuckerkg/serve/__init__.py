"""The HTTP service: an engine around a run, a guard around the application, a server around both."""

from __future__ import annotations
