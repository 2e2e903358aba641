"""Make lives of devices by seed, which the Python and the TypeScript client both play.

A life is a list of registries and calls, each call with the time of the device's clock. Each client
answers with a transcript, and `protocol` checks each transcript against docs/device-protocol.md.
"""
