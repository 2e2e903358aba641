"""Texts of registries that several files share."""

METRIC = """
[metric.{name}]
version = 1
group = "{group}"
description = "About a banner"
owners = ["team@example.org"]
expires = 2030-12-31
{rest}
"""


GROUP = """
[group.{name}]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
"""


JOINT = 'mechanism = "joint"\nof = ["shown", "dismissed"]'
