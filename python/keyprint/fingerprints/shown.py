"""Texts that stand for values in manifests, where nothing is to be derived from the value itself."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._native import Fingerprint

__all__ = ["Shown", "ShownParts"]


class Shown(str):
    """A text that stands for a value in a manifest, and is shown as it is."""

    __slots__ = ()


class ShownParts:
    """A text that stands for a value in a manifest, with what is in it: path, digest and text of each part."""

    __slots__ = ("is_cut", "parts", "text")

    def __init__(self, text: str, parts: list[tuple[str, Fingerprint, str]], is_cut: bool = False) -> None:
        self.text = text
        self.parts = parts
        self.is_cut = is_cut
