"""Lives of devices, made by seed, that the Python and the TypeScript client play alike.

A life is a list of registries and calls, each with the time of the device's clock. Each client
answers with a transcript, and `protocol` holds each transcript to docs/device-protocol.md.
"""
