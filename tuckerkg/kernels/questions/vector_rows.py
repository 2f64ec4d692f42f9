"""Rows of a fixed width as values in compiled code: one LLVM vector each, in registers from load to store.

Numba vectorizes loops over a row, but an accumulator in an array is loaded and stored at every edge. A ``Row`` is a
vector of ``width`` numbers that LLVM lays out in whatever registers the processor has (a row of 32 float32: four of
AVX2, two of AVX-512), so that the sum, maximum and minimum over an entity's edges never leave them.

    @njit
    def total_of_rows(width, table, count, out):
        result = fill(width, table, 0)
        for row in range(count):
            result = result + load(width, table, row * lanes(width))
        store(out, 0, result)

``width`` is a ``Width(32)``, whose number is part of its type: code is compiled once per width and precision.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import NativeValue, intrinsic, models, overload, register_model, typeof_impl, unbox

# Multiplications and additions may be fused; nothing else is reordered, so that sums have a fixed order.
FUSED = ("contract",)


class Width:
    """The number of features of a row, known when code is compiled."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes


class WidthType(types.Type):
    """Numba's type of a ``Width``."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Width({lanes})")


class RowType(types.Type):
    """Numba's type of a row of ``lanes`` numbers."""

    def __init__(self, lanes: int, dtype: Any) -> None:
        self.lanes, self.dtype = lanes, dtype
        super().__init__(name=f"Row({lanes}, {dtype})")


register_model(WidthType)(models.OpaqueModel)


@register_model(RowType)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, row: RowType) -> None:
        element = ir.FloatType() if row.dtype == types.float32 else ir.DoubleType()
        super().__init__(manager, row, ir.VectorType(element, row.lanes))


@typeof_impl.register(Width)
def _type_of_width(value: Width, _: Any) -> WidthType:
    return WidthType(value.lanes)


@unbox(WidthType)
def _unbox_width(_type: Any, _value: Any, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


@intrinsic
def lanes(_context: Any, width: Any) -> Any:
    """The number of features, as a constant."""

    def emit(context: Any, _builder: Any, _signature: Any, _arguments: Any) -> Any:
        return context.get_constant(types.intp, width.lanes)

    return types.intp(width), emit


@intrinsic
def load(_context: Any, width: Any, array: Any, offset: Any) -> Any:
    """The row that starts at ``array[offset]`` of a flat array."""
    row = RowType(width.lanes, array.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_pointer(context, builder, signature.args[1], arguments[1], arguments[2], row))
        value.align = array.dtype.bitwidth // 8
        return value

    return row(width, array, types.intp), emit


@intrinsic
def store(_context: Any, array: Any, offset: Any, row: Any) -> Any:
    """Write a row to ``array[offset]`` of a flat array."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], row)
        builder.store(arguments[2], pointer).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, row), emit


@intrinsic
def fill(_context: Any, width: Any, like: Any, number: Any) -> Any:
    """A row of equal numbers, in the precision of the array ``like``."""
    row = RowType(width.lanes, like.dtype)

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = context.cast(builder, arguments[2], number, row.dtype)
        return _splat(builder, value, context.get_value_type(row))

    return row(width, like, number), emit


@intrinsic
def scaled(_context: Any, row: Any, number: Any) -> Any:
    """``row * number``, in the precision of the row."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = context.cast(builder, arguments[1], number, row.dtype)
        return builder.fmul(arguments[0], _splat(builder, value, context.get_value_type(row)), flags=FUSED)

    return row(row, number), emit


@intrinsic
def where_equal(_context: Any, left: Any, right: Any, value: Any) -> Any:
    """``value`` where ``left == right``, else 0."""
    return left(left, right, value), _select("==")


@intrinsic
def where_larger(_context: Any, left: Any, right: Any, value: Any) -> Any:
    """``value`` where ``left > right``, else 0."""
    return left(left, right, value), _select(">")


@intrinsic
def total(_context: Any, row: Any) -> Any:
    """The sum over features, halves added to halves."""

    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value, count, index = arguments[0], row.lanes, ir.IntType(32)
        while count > 1:
            count //= 2
            low, high = (
                builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(index, count), list(places)))
                for places in (range(count), range(count, 2 * count))
            )
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.Constant(index, 0))

    return row.dtype(row), emit


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any, row: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), context.get_value_type(row).as_pointer())


def _splat(builder: Any, number: Any, vector: Any) -> Any:
    index = ir.IntType(32)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(index, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(index, vector.count), [0] * vector.count))


def _select(comparison: str) -> Callable[..., Any]:
    def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        left, right, value = arguments
        return builder.select(builder.fcmp_ordered(comparison, left, right), value, ir.Constant(value.type, None))

    return emit


def _binary(compute: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic
    def operation(_context: Any, left: Any, right: Any) -> Any:
        def emit(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return compute(builder, *arguments)

        return left(left, right), emit

    return operation


_add = _binary(lambda builder, left, right: builder.fadd(left, right, flags=FUSED))
_subtract = _binary(lambda builder, left, right: builder.fsub(left, right, flags=FUSED))
_multiply = _binary(lambda builder, left, right: builder.fmul(left, right, flags=FUSED))
divided = _binary(lambda builder, left, right: builder.fdiv(left, right))
larger = _binary(lambda builder, left, right: builder.select(builder.fcmp_ordered(">", left, right), left, right))
smaller = _binary(lambda builder, left, right: builder.select(builder.fcmp_ordered("<", left, right), left, right))


# Not strict: numba would compare annotations with those of the lambda, which has none.
@overload(operator.add, strict=False)
def _row_add(left: Any, right: Any) -> Any:
    return (lambda left, right: _add(left, right)) if _rows(left, right) else None  # noqa: PLW0108


@overload(operator.sub, strict=False)
def _row_subtract(left: Any, right: Any) -> Any:
    return (lambda left, right: _subtract(left, right)) if _rows(left, right) else None  # noqa: PLW0108


@overload(operator.mul, strict=False)
def _row_multiply(left: Any, right: Any) -> Any:
    return (lambda left, right: _multiply(left, right)) if _rows(left, right) else None  # noqa: PLW0108


def _rows(left: Any, right: Any) -> bool:
    return isinstance(left, RowType) and isinstance(right, RowType)
