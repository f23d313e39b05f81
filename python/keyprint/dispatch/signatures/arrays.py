"""Arguments that are arrays: they count by their specification."""

from __future__ import annotations

import sys

from ..._native import Check, NdArray, Source, _array_spec, _cuda_array_spec, fingerprint
from ...errors import SignatureError
from ...fingerprints.kinds import is_a
from ...functions.access_paths import function_of, lookup
from ...functions.reads import HOW, add_use, format_read, where_of
from .argument import Argument, foreign_array, numpy_array, type_name
from .inspection import is_array, is_computed, stored, stored_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...functions.reads import Node
    from .signature import SignatureMaker


def take_own_array(maker: SignatureMaker, value: NdArray, source: Source) -> Argument:
    # The same as an array of NumPy that is laid out so: what is compiled for one is good for the other.
    argument = Argument("array", type="numpy.ndarray", layout="C", writable=True)
    kinds = {"bool": "bool", "i": "int", "u": "uint", "f": "float", "bf": "bfloat"}
    argument.dtype = kinds[value.scalar.rstrip("0123456789")] + value.scalar.lstrip(
        "abcdefghijklmnopqrstuvwxyz"
    )
    argument.ndim, argument.needs_grad = value.ndim, value.needs_grad or None
    argument.element = value.element_shape or None
    if value.device_id is not None:
        # As DLPack counts kinds of devices.
        argument.device, argument.device_id = 2, value.device_id
    return argument.guarded_by(maker.add_guard(source, Check.own()))


def take_array(maker: SignatureMaker, value: Any, source: Source, path: str) -> Argument | None:
    kind = type(value)
    multiple = maker.options.align.get(path, 0)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is getattr(numpy, "ndarray", None):
        guard = maker.add_guard(source, Check.numpy(multiple))
        if value.dtype.names is not None:
            # The names of fields can be changed in place.
            maker.add_guard(source, Check.signature(_dtype_digest, _dtype_digest(value)))
        return numpy_array(value, multiple).guarded_by(guard)
    if hasattr(kind, "__dlpack_c_exchange_api__"):
        spec = _array_spec(value, multiple)
        if spec is not None:
            guard = maker.add_guard(source, Check.exchange(multiple))
            dtype, ndim, layout, device, device_id, needs_grad, aligned = spec
            argument = Argument("array", dtype=dtype, ndim=ndim, layout=layout, needs_grad=needs_grad)
            argument.device, argument.device_id = device, device_id
            argument.type = type_name(value)
            argument.aligned = aligned if multiple else None
            if maker.options.takes_any_array and not needs_grad:
                _as_any(argument)
            return argument.guarded_by(guard)
    if hasattr(kind, "__cuda_array_interface__") and not multiple:
        interface = _cuda_array_spec(value)
        # Structs count by their fields, which are looked at below.
        if interface is not None and "V" not in interface[0]:
            guard = maker.add_guard(source, Check.cuda())
            argument = Argument("array", type=type_name(value), device=2)
            argument.dtype, argument.ndim, argument.layout, argument.writable, *place = interface
            argument.device_id, is_aligned = place
            argument.is_misaligned = None if is_aligned else True
            if kind.__module__.startswith("jax"):
                # Its arrays never change, whatever the protocol says.
                argument.writable = False
            if maker.options.takes_any_array:
                _as_any(argument)
            return argument.guarded_by(guard)
    if not is_array(value):
        return None
    describe = numpy_array if is_a(value, getattr(numpy, "ndarray", ())) else foreign_array
    maker.add_guard(source, Check.exact())

    def signature(value: Any) -> bytes:
        return bytes(fingerprint(describe(value, multiple).identity()))

    argument = describe(value, multiple)
    return argument.guarded_by(maker.add_guard(source, Check.signature(signature, signature(value))))


def _as_any(argument: Argument) -> None:
    """Have an array count as one of NumPy, or of ours, that is laid out so."""
    argument.type, argument.needs_grad = "numpy.ndarray", None
    argument.writable = argument.writable is not False


def take_beside_elements(
    maker: SignatureMaker, array: Argument, value: Any, node: Node, path: str, members: str
) -> None:
    """Take what is read of an array besides its elements: what its class or the program put on it."""
    cls = type(value)
    if "whole" in node.get(HOW, ()) and is_a(value, getattr(sys.modules.get("numpy"), "ndarray", ())):
        # What is handed on may be asked for anything that was put on it.
        for name in stored_names(value):
            add_use(node, (name,), "whole", where_of(node))
    for name in [name for name in node if name != HOW]:
        child: Any = node[name]
        member = stored(value, name)
        place = f"{path}.{name}"
        if member:
            source = Source.member(array.guard, name)
            taken = maker.take_any(member[0], child, source, place, in_object="value", members=members)
            array.members = {**(array.members or {}), name: taken}
            continue
        maker.add_guard(Source.member(array.guard, name), Check.absent())
        if not maker.guards.type(cls):
            maker.guards.set_recheck(lambda: False)
        for attribute in lookup(cls, name):
            owner = next(base for base in cls.__mro__ if name in vars(base))
            if maker.rules.packages.version_of(owner.__module__) is not None:
                continue
            function = function_of(attribute)
            if function is None and is_computed(attribute):
                raise SignatureError(
                    f"the argument `{maker.name}` computes `{place}` in a property ({format_read(child)})",
                    code="argument-type",
                    hint="store the value in a plain attribute, or pass it by itself",
                )
            inner = function if function is not None else getattr(attribute, "__func__", attribute)
            maker.count(f"class attribute {place}", maker.resolution(inner))


def _dtype_digest(array: Any) -> bytes:
    return bytes(fingerprint(array.dtype))
