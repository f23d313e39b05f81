"""Function keys: everything that a function reaches, and what of it counts.

:mod:`.key` is what users see, :mod:`.resolution` follows a function to everything that it reads.
"""
