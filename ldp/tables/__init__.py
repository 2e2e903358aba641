"""Counted: tables of reports, their files, and the estimates that decoding makes of them."""
