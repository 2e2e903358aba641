"""Hypothesis without deadlines, because a first call may compile a kernel, and with the same
examples in every run, so that a failure is the same for everybody."""

from hypothesis import settings

settings.register_profile("ldp", deadline=None, derandomize=True)
settings.load_profile("ldp")
