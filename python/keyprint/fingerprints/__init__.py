"""Fingerprints: rules for classes, metadata of fields, and texts that describe values to people."""
