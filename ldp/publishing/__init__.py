"""Results that come by themselves: complete periods of a store become a data set and a site."""

from ldp.publishing.publish import Job, Publication, opened, publish

__all__ = ["Job", "Publication", "opened", "publish"]
