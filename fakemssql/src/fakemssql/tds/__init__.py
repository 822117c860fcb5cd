"""The TDS protocol: packets, login, tokens and the encoding of values."""
