"""Publication of results: complete periods of a store become a data set and a site."""

from ldp.publishing.period import Problem
from ldp.publishing.publish import Job, Publication, opened, publish

__all__ = ["Job", "Problem", "Publication", "opened", "publish"]
