"""Randomness, channels, hashes, and the byte formats of reports, tables and batches."""
