"""Settings of the property tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast an example runs is the machine's matter: other processes may have it for a while.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
