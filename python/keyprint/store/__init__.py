"""Keys, the store of artifacts under them, and how results become bytes."""
