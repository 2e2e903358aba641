"""Tables of reports, their files, and the estimates that decoding computes from them."""
