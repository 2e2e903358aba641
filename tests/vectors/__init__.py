"""Golden vectors, so that a client in another language can be checked against this one."""
