"""Signatures: what the arguments of a call contribute to a key, and the guards that recognise them.

:mod:`.signature` makes them; how each kind of argument is taken is in :mod:`.values`, :mod:`.arrays` and
:mod:`.objects`. :mod:`.argument` is what compilers see of one.
"""
