"""The dispatcher: kernels that are compiled for the arguments they are called with.

:mod:`.kernel` is what users see; :mod:`.signatures` says what arguments contribute to a key.
"""
