"""Reads a graph in .fir text (grammar and semantics: fusion_ir/README.md) and says it in PyTorch.

The graph's text is the only description of a kernel of one's own, so its peer and its reference come
from here: what one would write in PyTorch for the same ops, in the given types for torch.compile, and
in float64 for a reference. `source(graph, sizes)` is a function of Python without branches, so that
torch.compile sees one region; `function(graph, sizes)` is that function. Nothing but `function` and
`torch_type` needs PyTorch.
"""

import dataclasses
import math
import re

TYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "i64": "int64",
    "i32": "int32",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
ROUNDED = "rounded"
FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2")
LARGEST_F8 = {"f8e4m3": 448.0, "f8e5m2": 57344.0}
RANGES = {"i64": (-(2**63), 2**63 - 1), "i32": (-(2**31), 2**31 - 1), "i8": (-128, 127), "u8": (0, 255)}

# Functions whose operands and results are as in PyTorch, NaN and overflow included.
POINTWISE = {
    **{name: f"torch.{name}({{0}})" for name in (
        "neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal",
        "sin", "cos", "tanh", "erf", "floor", "ceil", "trunc", "round")},
    **{name: f"torch.{name}({{0}}, {{1}})" for name in (
        "add", "sub", "mul", "pow", "eq", "ne", "lt", "le", "gt", "ge")},
    "is_nan": "torch.isnan({0})",
    "is_finite": "torch.isfinite({0})",
    "max": "torch.maximum({0}, {1})",
    "min": "torch.minimum({0}, {1})",
    "and": "torch.bitwise_and({0}, {1})",
    "or": "torch.bitwise_or({0}, {1})",
    "xor": "torch.bitwise_xor({0}, {1})",
    "not": "torch.bitwise_not({0})",
    "select": "torch.where({0}, {1}, {2})",
    "fma": "{0} * {1} + {2}",
    "clamp": "torch.minimum(torch.maximum({0}, {1}), {2})",
    "philox_uniform": "philox_uniform({0}, {1})",
}

# Ops that only say where elements lie: PyTorch gives a view of the operand's memory.
VIEWS = ("broadcast", "reshape", "permute", "slice")


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
    layouts: list  # Strides of each output, as extents; None: dense
    aliases: list  # The input whose memory each output takes over, as an id; None: none

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

    def goes_by_rows(self):
        """Whether chunks of the first symbol's rows can be computed one by one, sums apart."""
        first = self.symbols[0] if self.symbols else None
        shapes = {value.id: value.shape for op in self.ops for value in op.results}

        def is_cut(shape):
            return bool(shape) and shape[0] == first

        def keeps_rows(op):
            operands = [shapes[id] for id in op.operands]
            if not any(map(is_cut, operands)):
                return op.name != "iota" or op.fields["axis"][0] != 0 or not is_cut(op.results[0].shape)
            if op.name.startswith("contract."):  # Rows are a batch, or those of one operand.
                sides = (op.fields["left"], op.fields["right"])
                return is_cut(op.results[0].shape) and all(
                    axes[0] == 0 for axes, shape in zip(sides, operands, strict=True) if is_cut(shape))
            if op.name.startswith("reduce.") or op.name in ("welford", "logsumexp"):
                return op.name == "reduce.sum" or 0 not in op.fields["over"]
            if op.name in ("take", "concatenate"):
                return op.fields["axis"][0] != 0
            if op.name in ("slice", "pad", "permute", "external"):
                return False
            return op.name == "broadcast" or is_cut(op.results[0].shape)

        return first is not None and all(map(keeps_rows, self.ops))

    def limit_of_indices(self, value):
        """The extent that an integer input indexes in a `take`, or None."""
        for op in self.ops:
            if op.name == "take" and op.operands[1] == value.id:
                taken = next(v for o in self.ops for v in o.results if v.id == op.operands[0])
                return taken.shape[op.fields["axis"][0]]
        return None

    def products_of(self, value, sizes):
        """The products that each element of a contraction sums of which the value is the right operand,
        or 1."""
        for op in self.ops:
            if op.name == "contract.sum" and op.operands[1] == value.id:
                shape = self.shape(value, sizes)
                return math.prod(n for n, axis in zip(shape, op.fields["right"], strict=True)
                                 if axis in op.fields["over"])
        return 1


def extents(text):
    return [int(word) if re.fullmatch(r"-?\d+", word) else word for word in re.split(r"[,\s]+", text.strip()) if word]


def parse(text):
    """A graph. The text is taken to be valid: Sinter reads it too, and says what is wrong with it."""
    quoted = []  # Names of any bytes, which words stand for until all else is read.

    def put_aside(match):
        if match[0].startswith(";"):
            return ""
        quoted.append(match[0])
        return f"quoted_{len(quoted) - 1}_"

    def original(word):
        return re.sub(r"quoted_(\d+)_", lambda match: quoted[int(match[1])], word)

    def unquoted(word):
        return quoted[int(word[7:-1])][1:-1] if re.fullmatch(r"quoted_\d+_", word) else word

    text = re.sub(r'"(?:[^"\\]|\\.)*"|;[^\n]*', put_aside, text)
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
            results.append(Value(words[0], unquoted(words[-1]), kind, extents(shape)))
        name, rest = re.match(r"\s*([\w.]+)(.*)", right, re.DOTALL).groups()
        fields = {key: extents(inner) for key, inner in re.findall(r"(\w+)\s*\(([^)]*)\)", rest)}
        operands = re.findall(r"%v\d+", re.sub(r"\([^)]*\)", "", rest))
        op = Op(results, name, operands, fields, original(rest.strip()))
        if name == "input":
            results[0].strides = fields.get("strides")
        values.update((value.id, value) for value in results)
        ops.append(op)
    outputs, layouts, aliases = [], [], []
    for output in re.split(r",\s*(?=%v\d+)", returned.split("}")[0].strip()):
        outputs.append(values[re.match(r"%v\d+", output)[0]])
        strides = re.search(r"\bstrides\s*\(([^)]*)\)", output)
        layouts.append(extents(strides[1]) if strides else None)
        alias = re.search(r"\balias\s*\(\s*(%v\d+)", output)
        aliases.append(alias[1] if alias else None)
    return Graph(unquoted(head[1]), symbols, ops, outputs, layouts, aliases)


def number(text, kind):
    """The literal of a constant, as Python spells it."""
    word = text.split()[0]
    if kind == "bool":
        return repr(word in ("true", "1"))
    if kind not in FLOATS:
        return str(int(word))
    value = float.fromhex(word) if "0x" in word else float(word)
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def source(graph, sizes, exact=False, rows=None):
    """The text of `run(device, ...)`, which takes the graph's inputs and gives a tuple of its outputs.

    `sizes` has every symbol. With `exact`, floats are float64 and casts between them round nothing, or
    if it is ROUNDED only those on the way to the outputs do.
    `rows`: so many of the first symbol's rows are given, a chunk of what `sizes` says.
    """
    types = {value.id: value.type for op in graph.ops for value in op.results}
    shapes = {value.id: shape_of(graph, value, sizes, rows) for op in graph.ops for value in op.results}
    names = {id: "v" + id[2:] for id in types}
    lines = []
    for op in graph.ops:
        if op.name == "input":
            continue
        words = translated(op, graph, sizes, shapes, types, exact)
        for value, word in zip(op.results, words, strict=True):
            lines.append(f"{names[value.id]} = " + re.sub(r"%v(\d+)", r"v\1", word))
    written = written_outputs(graph, names, shapes, sizes, exact)
    lines.append("return (" + "".join(out + ", " for out in written) + ")")
    parameters = ", ".join(["device", *(names[value.id] for value in graph.inputs)])
    return f"def run({parameters}):\n" + "".join(f"    {line}\n" for line in lines)


def shape_of(graph, value, sizes, rows=None):
    shape = list(graph.shape(value, sizes))
    if rows is not None and graph.symbols and value.shape and value.shape[0] == graph.symbols[0]:
        shape[0] = rows
    return tuple(shape)


def written_outputs(graph, names, shapes, sizes, exact):
    """Outputs in memory of their own, laid out as the graph says: a view of an input, or of another
    output, would move nothing."""
    made_by = {value.id: op for op in graph.ops for value in op.results}
    taken = set()
    for value, layout in zip(graph.outputs, graph.layouts, strict=True):
        root = value.id
        while made_by[root].name in VIEWS:
            root = made_by[root].operands[0]
        name = names[value.id]
        is_shared = made_by[root].name in ("input", "constant") or root in taken
        taken.add(root)
        if layout is not None:
            strides = tuple(graph.size(extent, sizes) for extent in layout)
            yield (f"torch.empty_strided({shapes[value.id]}, {strides}, dtype={type_text(value.type, exact)}, "
                   f"device=device).copy_({name})")
            continue
        yield f"{name}.clone(memory_format=torch.contiguous_format)" if is_shared else f"{name}.contiguous()"


def type_text(kind, exact):
    return "torch." + ("float64" if exact and kind in FLOATS else TYPES[kind])


def filled(shape, word, kind, exact):
    made = f"torch.full({tuple(shape)}, {word}, dtype={type_text(kind, False)}, device=device)"
    return made + ".to(torch.float64)" if exact and kind in FLOATS else made


def inner_roundings(graph):
    """Casts to narrower floats on the way to the outputs."""
    outputs = {value.id for value in graph.outputs}
    return [
        op for op in graph.ops
        if op.name == "cast" and op.results[0].type in FLOATS and op.results[0].type not in ("f32", "f64")
        and op.results[0].id not in outputs]


def cast(x, source_kind, kind, exact):
    to = type_text(kind, exact)
    if kind == "bool":
        return f"({x} != 0)"
    if kind in LARGEST_F8:  # They saturate.
        wide = x if exact else f"{x}.to(torch.float32)"
        return f"{wide}.clamp(-{LARGEST_F8[kind]}, {LARGEST_F8[kind]}).to({to})"
    if kind in FLOATS:
        through = ".to(torch.float32)" if kind in ("f16", "bf16") and not exact else ""
        return f"{x}{through}.to({to})"
    if source_kind in FLOATS:
        return f"to_integer({x}, {to}, {RANGES[kind][0]}, {RANGES[kind][1]})"
    if source_kind != "bool":
        (low, high), (least, most) = RANGES[kind], RANGES[source_kind]
        if low > least or high < most:
            return f"{x}.clamp({max(low, least)}, {min(high, most)}).to({to})"
    return f"{x}.to({to})"


def reduced(fn, x, axes, op, shapes, types, exact):
    kind, shape = op.results[0].type, shapes[op.results[0].id]
    operand, from_kind = op.operands[0], types[op.operands[0]]
    if 0 in (shapes[operand][axis] for axis in axes):
        least, most = RANGES.get(from_kind, ("float('-inf')", "float('inf')"))
        identity = {"sum": 0, "prod": 1, "max": least, "min": most, "any": False, "all": True}
        return filled(shape, identity.get(fn, 0), kind, exact)
    one_by_one = {"prod": f".prod({{}}, dtype={x}.dtype)", "any": ".any({})", "all": ".all({})",
                  "argmax": ".argmax({})", "argmin": ".argmin({})"}
    if fn in one_by_one:  # Over one axis at a time, the last first.
        return x + "".join(one_by_one[fn].format(axis) for axis in sorted(axes, reverse=True))
    if fn == "sum":
        return f"{x}.sum({axes}, dtype={x}.dtype)"
    if fn in ("max", "min"):
        return f"{x}.a{fn}({axes})"
    return None


def contracted(op, graph, shapes, types, exact):
    """Sums of products as einsum, by the type that PyTorch multiplies fastest: operands of 16 bits as they
    are where all readers round the result to their type, which is then rounded once; else in the type of
    the result. All else element by element."""
    (left, right), kind = op.operands, op.results[0].type
    sides = (op.fields["left"], op.fields["right"])
    rank = 1 + max(axis for side in sides for axis in side)
    over = op.fields["over"]
    to = type_text(kind, exact)
    if op.name == "contract.sum" and kind in FLOATS:
        letters = [chr(ord("a") + axis) for axis in range(rank)]
        terms = ["".join(letters[axis] for axis in side) for side in sides]
        equation = f"'{terms[0]},{terms[1]}->{''.join(letters[: rank - len(over)])}'"
        readers = [other for other in graph.ops if op.results[0].id in other.operands]
        narrow = types[left] if types[left] == types[right] and types[left] in ("f16", "bf16") else None
        stays = narrow and readers and all(
            reader.name == "cast" and reader.results[0].type == narrow for reader in readers
        ) and op.results[0].id not in [value.id for value in graph.outputs]
        if stays and not exact:
            return f"torch.einsum({equation}, {left}, {right})"
        return f"torch.einsum({equation}, {left}.to({to}), {right}.to({to}))"

    def spread(x, side):
        order = sorted(range(len(side)), key=lambda axis: side[axis])
        ones = [1] * rank
        for axis in order:
            ones[side[axis]] = shapes[x][axis]
        return f"{x}.to({to}).permute({order}).reshape({tuple(ones)})"

    a, b = spread(left, sides[0]), spread(right, sides[1])
    if op.name == "contract.sum":
        return f"({a} * {b}).sum({over}, dtype={to})"
    if 0 in (shapes[left][sides[0].index(axis)] for axis in over):
        least = RANGES.get(kind, ("float('-inf')",))[0]
        return filled(shapes[op.results[0].id], least, kind, exact)
    if op.name == "contract.max":
        return f"({a} + {b}).amax({over})"
    return f"({a} + {b}).logsumexp({over})"


def translated(op, graph, sizes, shapes, types, exact):
    """What to write for each result of an op, in terms of `%v` names."""
    value, args = op.results[0], op.operands
    shape, kind = shapes[value.id], value.type
    x = args[0] if args else None
    if op.name in POINTWISE:
        return [POINTWISE[op.name].format(*args)]
    if op.name in ("div", "rem"):
        if types[x] in FLOATS:
            return [f"torch.{'div' if op.name == 'div' else 'fmod'}({args[0]}, {args[1]})"]
        return [f"integer_{op.name}({args[0]}, {args[1]})"]
    if op.name == "cast":
        word = cast(x, types[x], kind, exact)
        if exact == ROUNDED and op in inner_roundings(graph):
            word = f"{word}.to({type_text(kind, False)}).to(torch.float64)"
        return [word]
    if op.name == "constant":
        return [filled((), number(op.rest, kind), kind, exact)]
    if op.name == "extent":
        return [filled((), math.prod(graph.size(e, sizes) for e in op.extents), "i64", exact)]
    if op.name == "iota":
        axis = op.fields["axis"][0]
        ones = [1] * len(shape)
        ones[axis] = shape[axis]
        return [f"torch.arange({shape[axis]}, dtype={type_text(kind, exact)}, device=device)"
                f".reshape({tuple(ones)}).expand({shape})"]
    if op.name == "broadcast":
        ones = [1] * len(shape)
        for axis, size in zip(op.fields["axes"], shapes[x], strict=True):
            ones[axis] = size
        return [f"{x}.reshape({tuple(ones)}).expand({shape})"]
    if op.name.startswith("reduce."):
        word = reduced(op.name[7:], x, op.fields["over"], op, shapes, types, exact)
        if word:
            return [word]
    if op.name == "welford":
        axes = op.fields["over"]
        count = math.prod(shapes[x][axis] for axis in axes)
        if count == 0:
            return [filled(shape, 0, kind, exact)] * 2
        return [f"{x}.mean({axes})", f"{x}.var({axes}, correction=0) * {count}"]
    if op.name == "logsumexp":
        axes = op.fields["over"]
        if 0 in (shapes[x][axis] for axis in axes):
            return [filled(shape, "float('-inf')", kind, exact), filled(shape, 0, kind, exact)]
        return [f"{x}.amax({axes})", f"({x} - {x}.amax({axes}, keepdim=True)).exp().sum({axes})"]
    if op.name in ("contract.sum", "contract.max", "contract.logsumexp"):
        return [contracted(op, graph, shapes, types, exact)]
    if op.name == "take":
        axis = op.fields["axis"][0]
        if shapes[x][axis] == 0:
            return [filled(shape, 0, kind, exact)]
        return [f"taken({x}, {args[1]}, {axis})"]
    if op.name == "reshape":
        return [f"{x}.reshape({shape})"]
    if op.name == "permute":
        return [f"{x}.permute({op.fields['order']})"]
    if op.name == "concatenate":
        return [f"torch.cat(({''.join(arg + ', ' for arg in args)}), {op.fields['axis'][0]})"]
    if op.name == "slice":
        bounds = zip(op.fields["start"], op.fields["stop"], op.fields["step"], strict=True)
        # A stop of -1 is the end.
        return [f"{x}[" + ", ".join(f"{a}:{'' if b < 0 else b}:{c}" for a, b, c in bounds) + "]"]
    if op.name == "pad":
        ends = zip(op.fields["low"], op.fields["high"], strict=True)
        widths = [width for pair in reversed(list(ends)) for width in pair]
        filling = number(re.search(r"\bvalue\s+(\S+)", op.rest)[1], kind)
        return [f"torch.nn.functional.pad({x}, {widths}, value={filling})"]
    name = " ".join([op.name, *re.findall(r'^\s*([\w"]+)', op.rest)]) if op.name == "external" else op.name
    raise Untranslated(
        f"{value.id}: '{name}' has no translation to PyTorch; write the peer in a file and name it "
        "with --peer")


# What the functions of `source` call, beside PyTorch. Text, as they are: torch.compile traces them.
HELPERS = """
import torch


def to_integer(x, dtype, least, most):
    within = torch.where(torch.isnan(x), 0.0, x).to(dtype)
    return torch.where(x >= float(most + 1), most, torch.where(x <= float(least), least, within))


def integer_div(a, b):
    safe = torch.where((b == 0) | (b == -1), 1, b)  # The least number over -1 wraps around.
    found = torch.where(b == -1, -a, torch.div(a, safe, rounding_mode="trunc"))
    return torch.where(b == 0, 0, found)


def integer_rem(a, b):
    return torch.where((b == 0) | (b == -1), 0, torch.fmod(a, torch.where((b == 0) | (b == -1), 1, b)))


def taken(x, index, axis):
    is_inside = (index >= 0) & (index < x.shape[axis])
    safe = torch.where(is_inside, index, 0).to(torch.int64)
    found = x.gather(axis, safe.unsqueeze(axis)).squeeze(axis)
    return torch.where(is_inside, found, torch.zeros((), dtype=x.dtype, device=x.device))


def philox_uniform(seed, index):
    word = 0xFFFFFFFF
    block = (index >> 2) & 0x3FFFFFFFFFFFFFFF
    a, b, c, d = block & word, block >> 32, torch.zeros_like(block), torch.zeros_like(block)
    k, m = seed & word, (seed >> 32) & word
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = ((q >> 32) & word) ^ b ^ k, q & word, ((p >> 32) & word) ^ d ^ m, p & word
        k, m = (k + 0x9E3779B9) & word, (m + 0xBB67AE85) & word
    which = index & 3
    picked = torch.where(which < 2, torch.where(which == 0, a, b), torch.where(which == 2, c, d))
    return (picked >> 8).to(torch.float32) * 2.0**-24
"""


def function(graph, sizes, exact=False):
    """What computes the graph's outputs, as a tuple, from its inputs: `source`, where inputs lie.

    With `exact`, see source(), in float64, of all rows or of as many as are given. Untranslated: an op
    that is not known here, before anything runs.
    """
    made = {}

    def written(rows):
        if rows not in made:
            space = {}
            text = HELPERS + source(graph, sizes, exact, rows)
            exec(compile(text, f"<{graph.name} in PyTorch>", "exec"), space)
            made[rows] = space["run"]
        return made[rows]

    whole = written(None)
    if not exact:
        return lambda *inputs: whole(inputs[0].device, *inputs)
    cut = [bool(v.shape and graph.symbols and v.shape[0] == graph.symbols[0]) for v in graph.inputs]

    def run(*inputs):
        rows = next((x.shape[0] for x, is_cut in zip(inputs, cut, strict=True) if is_cut), None)
        return written(rows)(inputs[0].device, *(x.double() if x.is_floating_point() else x for x in inputs))

    return run


def torch_type(kind):
    import torch

    return getattr(torch, TYPES[kind])
