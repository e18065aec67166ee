"""Says a graph (fir.py) as a fusion of nvFuser, by its bindings `nvfuser_direct`."""

import math

from fir import Untranslated

TYPES = {"f32": "Float", "f16": "Half", "bf16": "BFloat16", "f64": "Double", "i64": "Int"}
POINTWISE = ("add", "sub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh")
OTHERS = ("input", "constant", "extent", "cast", "broadcast", "reduce.sum", "reduce.max", "welford")


def is_translated(graph):
    """Whether there is a fusion of nvFuser for each op and type of the graph."""
    is_dense = not any(graph.aliases) and not any(graph.layouts)
    return is_dense and all(
        op.name in POINTWISE + OTHERS and all(value.type in TYPES for value in op.results)
        for op in graph.ops)


def function(graph, sizes):
    """What computes the graph's outputs, as a tuple, from its inputs. Untranslated: it is not said."""
    from nvfuser_direct import DataType, FusionDefinition

    if not is_translated(graph):
        raise Untranslated(f"'{graph.name}' has no fusion in nvFuser")
    with FusionDefinition() as definition:
        values = {}  # Tensors, and Python's numbers for scalars.
        for op in graph.ops:
            made = translated(op, graph, sizes, values, definition, DataType)
            values |= {value.id: one for value, one in zip(op.results, made, strict=True)}
        for value in graph.outputs:
            definition.add_output(values[value.id])
    return lambda *inputs: tuple(definition.execute(list(inputs)))


def translated(op, graph, sizes, values, definition, types):
    """The value of each result of an op."""
    value, ops = op.results[0], definition.ops

    def type_of(kind):
        return getattr(types, TYPES[kind])

    def operand(id):
        if isinstance(values[id], (int, float)):
            return definition.define_scalar(float(values[id]), dtype=types.Double)
        return values[id]

    x = values[op.operands[0]] if op.operands else None
    is_scalar = isinstance(x, (int, float))
    if op.name == "input":
        shape = list(graph.shape(value, sizes))
        return [definition.define_tensor(
            shape=shape, contiguity=[True] * len(shape), dtype=type_of(value.type))]
    if op.name == "constant":
        word = op.rest.split()[0]
        return [float.fromhex(word) if "0x" in word else float(word)]
    if op.name == "extent":
        return [math.prod(graph.size(extent, sizes) for extent in op.extents)]
    if op.name in ("cast", "broadcast") and is_scalar:
        return [x]
    if op.name == "cast":
        return [ops.cast(x, dtype=type_of(value.type))]
    if op.name == "broadcast":
        shape = list(graph.shape(value, sizes))
        return [ops.broadcast_in_dim(x, shape=shape, broadcast_dims=op.fields["axes"])]
    if op.name in POINTWISE and not all(isinstance(values[id], (int, float)) for id in op.operands):
        return [getattr(ops, op.name)(*map(operand, op.operands))]
    if op.name in ("reduce.sum", "reduce.max") and not is_scalar:
        return [getattr(ops, op.name[7:])(x, dims=op.fields["over"])]
    if op.name == "welford" and not is_scalar:
        over = op.fields["over"]
        whole = next(v for o in graph.ops for v in o.results if v.id == op.operands[0])
        count = math.prod(graph.shape(whole, sizes)[axis] for axis in over)
        variance, mean = ops.var_mean(x, dims=over, correction=0, keepdim=False)
        return [mean, ops.mul(variance, definition.define_scalar(float(count), dtype=types.Double))]
    raise Untranslated(f"{value.id}: '{op.name}' of scalars has no fusion in nvFuser")
