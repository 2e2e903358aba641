"""What bytes mean: randomness, channels, reports, batches, hashes."""
