"""Golden vectors, by which a client in another language can be checked against this one."""
