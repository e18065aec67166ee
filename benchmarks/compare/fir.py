"""Reads a graph in .fir text (grammar: fusion_ir/README.md) and says it in PyTorch.

The graph's text is the only description of a kernel of one's own, so its peer and its reference come
from here: `function(graph)` is what one would write in PyTorch for the same ops, in the given types
for torch.compile, and in float64 for a reference.
"""

import dataclasses
import math
import re

import torch

TYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}

POINTWISE = {
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "round": torch.round,
    "is_nan": torch.isnan,
    "is_finite": torch.isfinite,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "pow": torch.pow,
    "max": torch.maximum,
    "min": torch.minimum,
    "xor": torch.bitwise_xor,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "not": torch.bitwise_not,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "select": torch.where,
    "fma": lambda a, b, c: a * b + c,
    "clamp": lambda x, low, high: torch.minimum(torch.maximum(x, low), high),
}

REDUCE = {
    "sum": lambda x, axes: x.sum(axes, keepdim=True),
    "max": lambda x, axes: x.amax(axes, keepdim=True),
    "min": lambda x, axes: x.amin(axes, keepdim=True),
    "any": lambda x, axes: x.any(axes[0], keepdim=True),
    "all": lambda x, axes: x.all(axes[0], keepdim=True),
    "argmax": lambda x, axes: x.argmax(axes[0], keepdim=True),
    "argmin": lambda x, axes: x.argmin(axes[0], keepdim=True),
}


# Ops that look at a value's whole shape, which a broadcast may have left to PyTorch.
WHOLE = {"welford", "logsumexp", "take", "reshape", "permute", "slice", "concatenate"}


class Untranslated(Exception):
    """An op that this file has no words for; the message names it and the way out."""


@dataclasses.dataclass
class Value:
    id: str
    name: str
    type: str
    shape: list  # of ints and names of symbols
    strides: list | None = None  # of an input


@dataclasses.dataclass
class Op:
    results: list  # of Value
    name: str
    operands: list  # of ids
    fields: dict  # "axes": [0]
    rest: str  # all behind the name, as written

    @property
    def extents(self):
        """What stands in the parentheses right behind the name."""
        return extents(self.rest[1 : self.rest.index(")")])


@dataclasses.dataclass
class Graph:
    name: str
    symbols: list
    ops: list
    outputs: list  # of Value

    @property
    def inputs(self):
        return [op.results[0] for op in self.ops if op.name == "input"]

    def size(self, extent, sizes):
        return sizes[extent] if isinstance(extent, str) else extent

    def shape(self, value, sizes):
        return tuple(self.size(extent, sizes) for extent in value.shape)

    def strides(self, value, sizes):
        """Elements between neighbours along each axis; dense where the graph says nothing."""
        if value.strides is not None:
            return tuple(self.size(extent, sizes) for extent in value.strides)
        out, step = [], 1
        for extent in reversed(self.shape(value, sizes)):
            out.append(step)
            step *= extent
        return tuple(reversed(out))

    def limit_of_indices(self, value):
        """The extent that an integer input indexes in a `take`, or None."""
        for op in self.ops:
            if op.name == "take" and op.operands[1] == value.id:
                taken = next(v for o in self.ops for v in o.results if v.id == op.operands[0])
                return taken.shape[op.fields["axis"][0]]
        return None


def extents(text):
    return [int(word) if re.fullmatch(r"-?\d+", word) else word for word in re.split(r"[,\s]+", text.strip()) if word]


def parse(text):
    """A graph. The text is taken to be valid: Sinter reads it too, and says what is wrong with it."""
    text = re.sub(r";[^\n]*", "", text)
    head = re.search(r"fusion\s+@(\w+)\s*(?:extents\(([^)]*)\))?\s*\{", text)
    body, _, returned = text[head.end() :].rpartition("return")
    symbols = [part.split()[0] for part in (head[2] or "").split(",") if part.split()]
    values, ops = {}, []
    statements = re.split(r"(?m)^\s*(?=%v\d+[^=]*:[^=]*=)", body)
    for statement in filter(str.strip, statements):
        left, right = statement.split("=", 1)
        names, types = left.split(":", 1)
        kinds = re.findall(r"(\w+)\s*(?:\[([^\]]*)\])?\s*(?:,|$)", types.strip())
        results = []
        for result, (kind, shape) in zip(names.split(","), kinds, strict=True):
            words = result.split()
            results.append(Value(words[0], words[1].strip('"') if len(words) > 1 else words[0],
                                 kind, extents(shape)))
        name, rest = re.match(r"\s*([\w.]+)(.*)", right, re.DOTALL).groups()
        fields = {key: extents(inner) for key, inner in re.findall(r"(\w+)\s*\(([^)]*)\)", rest)}
        operands = re.findall(r"%v\d+", re.sub(r"\([^)]*\)", "", rest))
        op = Op(results, name, operands, fields, rest.strip())
        if name == "input":
            results[0].strides = fields.get("strides")
        values.update((value.id, value) for value in results)
        ops.append(op)
    outputs = [values[id] for id in re.findall(r"(?:^|,)\s*(%v\d+)", returned.split("}")[0])]
    return Graph(head[1], symbols, ops, outputs)


def number(text, dtype):
    word = text.split()[0]
    if not dtype.is_floating_point:
        return int(word) if word not in ("true", "false") else word == "true"
    return float.fromhex(word) if "0x" in word else float(word)


def function(graph, sizes):
    """What computes the graph's outputs, as a tuple, from its inputs. `sizes` has every symbol.

    In float64 where the floats among the inputs are: then casts between floats round nothing.
    """

    def run(*inputs):
        exact = any(tensor.dtype == torch.float64 for tensor in inputs)
        found = {}

        def converted(tensor, kind):
            to = TYPES[kind]
            if to.is_floating_point and to.itemsize == 1:  # They saturate.
                tensor = tensor.clamp(torch.finfo(to).min, torch.finfo(to).max)
            if exact and to.is_floating_point:
                to = torch.float64
            if to.is_floating_point or to == torch.bool or not tensor.is_floating_point():
                return tensor.to(to)
            return tensor.clamp(torch.iinfo(to).min, torch.iinfo(to).max).to(to)

        def constant(op, device):
            kind = TYPES[op.results[0].type]
            if exact and kind.is_floating_point:
                kind = torch.float64
            return torch.full((), number(op.rest, kind), dtype=kind, device=device)

        def evaluate(op):
            args = [found[id] for id in op.operands]
            value = op.results[0]
            if op.name in WHOLE or op.name.startswith("reduce."):
                args = [spread(tensor, id) for tensor, id in zip(args, op.operands, strict=True)]
            if op.name in POINTWISE:
                return [POINTWISE[op.name](*args)]
            if op.name == "div":
                whole = not args[0].is_floating_point()
                return [torch.div(*args, rounding_mode="trunc" if whole else None)]
            if op.name == "cast":
                return [converted(args[0], value.type)]
            if op.name == "constant":
                return [constant(op, inputs[0].device)]
            if op.name == "extent":
                size = math.prod(graph.size(e, sizes) for e in op.extents)
                return [torch.full((), size, dtype=torch.int64, device=inputs[0].device)]
            if op.name == "broadcast":
                kept = op.fields["axes"]
                shape = [1] * len(value.shape)
                for axis, size in zip(kept, args[0].shape, strict=True):
                    shape[axis] = size
                return [args[0].reshape(shape)]  # PyTorch broadcasts where it is used.
            if op.name.startswith("reduce.") and op.name[7:] in REDUCE:
                axes = op.fields["over"]
                return [REDUCE[op.name[7:]](args[0], axes).squeeze(axes)]
            if op.name == "welford":
                x, axes = args[0], op.fields["over"]
                mean = x.mean(axes, keepdim=True)
                return [mean.squeeze(axes), (x - mean).pow(2).sum(axes)]
            if op.name == "logsumexp":
                x, axes = args[0], op.fields["over"]
                top = x.amax(axes, keepdim=True)
                return [top.squeeze(axes), (x - top).exp().sum(axes)]
            if op.name == "take":
                axis = op.fields["axis"][0]
                index = args[1].reshape(args[1].shape[:axis] + (-1,) + args[1].shape[axis:])
                return [args[0].gather(axis, index).squeeze(axis)]
            if op.name == "reshape":
                return [args[0].reshape(shape_of(value))]
            if op.name == "permute":
                return [args[0].permute(op.fields["order"])]
            if op.name == "concatenate":
                return [torch.cat(args, op.fields["axis"][0])]
            if op.name == "slice":
                bounds = zip(op.fields["start"], op.fields["stop"], op.fields["step"], strict=True)
                # A stop of -1 is the end.
                return [args[0][tuple(slice(a, None if b == -1 else b, c) for a, b, c in bounds)]]
            raise Untranslated(
                f"{value.id}: '{op.name}' has no translation to PyTorch; write the peer in a file and "
                "name it with --peer")

        kinds = {v.id: v for op in graph.ops for v in op.results}

        def spread(tensor, id):
            """A value whose broadcast was left to PyTorch, at its full shape."""
            return tensor.expand(shape_of(kinds[id]))

        def is_cut(value):
            return bool(value.shape and graph.symbols) and value.shape[0] == graph.symbols[0]

        # A chunk of rows may be fewer than the symbol says.
        rows = next((t.shape[0] for v, t in zip(graph.inputs, inputs, strict=True) if is_cut(v)), 1)

        def shape_of(value):
            shape = list(graph.shape(value, sizes))
            return [rows] + shape[1:] if is_cut(value) else shape

        remaining = iter(inputs)
        for op in graph.ops:
            results = [next(remaining)] if op.name == "input" else evaluate(op)
            found.update(zip((value.id for value in op.results), results, strict=True))
        return tuple(
            spread(found[value.id], value.id) for value in graph.outputs)

    return run
