"""The name and the version of the package."""

__version__ = "0.1.0"

#: The top-level package: what is inside of it counts by its version.
PACKAGE = "keyprint"
