"""Sinter from Python with nothing but ctypes: the structs of sinter_c.h field for field, and calls
that raise what went wrong. Kernel caches, builders and other calls go through `Sinter` like those
used here."""

import ctypes as c
import json

STATUS = {
    1: "InvalidFusion",
    2: "InvalidArgument",
    3: "Unsupported",
    4: "ResourceExhausted",
    5: "DeviceError",
    6: "InternalError",
    7: "InvalidHandle",
    8: "Cancelled",
}


class Struct(c.Structure):
    """A struct that begins with struct_size, which is set when it is made."""

    def __init__(self, **fields):
        super().__init__(struct_size=c.sizeof(self), **fields)


class ErrorInfo(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("status", c.c_int32),
        ("has_measured", c.c_int32),
        ("has_limit", c.c_int32),
        ("reserved", c.c_int32),
        ("measured", c.c_int64),
        ("limit", c.c_int64),
        ("kind", c.c_char_p),
        ("message", c.c_char_p),
        ("remedy", c.c_char_p),
        ("log", c.c_char_p),
        ("text", c.c_char_p),
        ("json", c.c_char_p),
        ("line", c.c_int64),
        ("column", c.c_int64),
    ]


class FusionInfo(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("input_count", c.c_size_t),
        ("output_count", c.c_size_t),
        ("symbol_count", c.c_size_t),
        ("op_count", c.c_size_t),
        ("value_count", c.c_size_t),
        ("name", c.c_char_p),
    ]


class PlanInfo(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("input_count", c.c_size_t),
        ("output_count", c.c_size_t),
        ("kernel_count", c.c_size_t),
        ("external_count", c.c_size_t),
        ("workspace_bytes", c.c_int64),
        ("predicted_us", c.c_double),
    ]


class DType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class TensorInfo(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("type", c.c_char_p),
        ("dtype", DType),
        ("value", c.c_uint32),
        ("rank", c.c_int32),
        ("alias", c.c_int32),
        ("alignment", c.c_int64),
        ("shape", c.c_int64 * 8),
        ("strides", c.c_int64 * 8),
    ]


class PlanOptions(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("schedule", c.c_char_p),
        ("family", c.c_char_p),
        ("threads_per_row", c.c_int64),
        ("rows_per_block", c.c_int64),
        ("vector_width", c.c_int64),
        ("unroll", c.c_int64),
        ("residency", c.c_char_p),
        ("cutting", c.c_int32),
        ("keep_graph", c.c_int32),
        ("cuts", c.c_void_p),
        ("cut_count", c.c_size_t),
        ("joins", c.c_void_p),
        ("join_count", c.c_size_t),
        ("tuned", c.c_void_p),
        ("check_indices", c.c_int32),
        ("cublaslt", c.c_int32),
        ("progress", c.c_void_p),
        ("progress_data", c.c_void_p),
        ("budget_seconds", c.c_double),
        ("like", c.c_void_p),
        ("defer_scales", c.c_int32),
        ("no_teams", c.c_int32),
    ]


class PrepareOptions(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("device", c.c_int32),
        ("check_addresses", c.c_int32),
        ("compile_threads", c.c_int32),
        ("forbid_replanning", c.c_int32),
        ("external", c.c_void_p),
        ("external_data", c.c_void_p),
        ("progress", c.c_void_p),
        ("progress_data", c.c_void_p),
        ("budget_seconds", c.c_double),
    ]


class ExecutableInfo(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("input_count", c.c_size_t),
        ("output_count", c.c_size_t),
        ("kernel_count", c.c_size_t),
        ("compiled_count", c.c_size_t),
        ("workspace_bytes", c.c_int64),
        ("predicted_us", c.c_double),
        ("device", c.c_int32),
        ("reserved", c.c_int32),
    ]


class DLDevice(c.Structure):
    _fields_ = [("device_type", c.c_int32), ("device_id", c.c_int32)]


class DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device", DLDevice),
        ("ndim", c.c_int32),
        ("dtype", DType),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class Tensor(c.Structure):
    _fields_ = [("plain", c.POINTER(DLTensor)), ("versioned", c.c_void_p)]


class ExecuteArgs(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("inputs", c.POINTER(Tensor)),
        ("input_count", c.c_size_t),
        ("outputs", c.POINTER(Tensor)),
        ("output_count", c.c_size_t),
        ("stream", c.c_void_p),
        ("workspace", c.c_void_p),
        ("workspace_bytes", c.c_int64),
        ("allocate", c.c_void_p),
        ("release", c.c_void_p),
        ("allocator_data", c.c_void_p),
    ]


class HostOptions(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("seed", c.c_uint64),
        ("threads", c.c_int32),
        ("reserved", c.c_int32),
        ("external", c.c_void_p),
        ("external_data", c.c_void_p),
    ]


class CheckOptions(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("seed", c.c_uint64),
        ("threads", c.c_int32),
        ("reserved", c.c_int32),
        ("data", c.POINTER(c.c_char_p)),
        ("data_count", c.c_size_t),
    ]


class CheckInfo(Struct):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("passed", c.c_int32),
        ("reserved", c.c_int32),
        ("data_sets", c.c_size_t),
        ("finding_count", c.c_size_t),
        ("mismatch_count", c.c_size_t),
        ("outside_count", c.c_size_t),
        ("worst_error_over_bound", c.c_double),
    ]


class Extent(c.Structure):
    _fields_ = [("name", c.c_char_p), ("size", c.c_int64)]


class SinterError(Exception):
    def __init__(self, status, detail):
        super().__init__(f"status {status}: {detail}")
        self.status = status
        self.detail = detail  # The JSON form of the error.


class Sinter:
    """A library, with the calls of sinter_c.h as methods without their prefix and without the last
    parameter."""

    def __init__(self, path):
        self.library = c.CDLL(path)
        self.library.sinter_version.restype = c.c_char_p
        self.library.sinter_status_name.restype = c.c_char_p
        self.library.sinter_abi_version.restype = c.c_uint32

    def __getattr__(self, name):
        function = getattr(self.library, "sinter_" + name)
        function.restype = c.c_int32

        def call(*arguments):
            error = c.c_void_p()
            status = function(*arguments, c.byref(error))
            if status != 0:
                raise SinterError(status, self.take_error(error))

        return call

    def take_error(self, error):
        info = ErrorInfo()
        assert self.library.sinter_error_describe(error, c.byref(info)) == 0
        detail = json.loads(info.json)
        assert detail["kind"] == info.kind.decode() == STATUS[info.status]
        assert detail["message"] == info.message.decode()
        assert self.library.sinter_error_release(error) == 0
        return detail

    def handle(self, name, *arguments):
        """What a call gives in its last parameter but the error."""
        out = c.c_void_p()
        getattr(self, name)(*arguments, c.byref(out))
        assert out.value
        return out

    def text(self, name, *arguments):
        text = self.handle(name, *arguments)
        data, size = c.c_char_p(), c.c_size_t()
        self.text_view(text, c.byref(data), c.byref(size))
        out = c.string_at(data, size.value).decode()
        self.text_release(text)
        return out


def extents_of(sizes):
    """The array and count that plan_create takes, of a dict of symbols and their sizes."""
    array = (Extent * len(sizes))(
        *(Extent(name.encode(), size) for name, size in sizes.items()))
    return array, c.c_size_t(len(sizes))


def borrow_on_host(sinter, plan, side, buffers):
    """The array and count of tensors in host memory: of a plan's "input" or "output", each in a
    writable buffer of bytes with the planned shape and strides: bytearrays, arrays of array or
    NumPy."""
    tensors = []
    for i, buffer in enumerate(buffers):
        info = TensorInfo()
        getattr(sinter, "plan_" + side)(plan, c.c_size_t(i), c.byref(info))
        address = c.addressof(c.c_char.from_buffer(buffer)) if len(buffer) else None
        plain = DLTensor(data=address, device=DLDevice(1, 0), ndim=info.rank, dtype=info.dtype,
                         shape=info.shape, strides=info.strides)
        tensors.append(Tensor(plain=c.pointer(plain)))
    return (Tensor * len(tensors))(*tensors), c.c_size_t(len(tensors))


def execute_on_host(sinter, plan, inputs, outputs, options=None):
    """Runs a plan in the interpreter, without a GPU, on buffers as borrow_on_host() takes them."""
    sinter.plan_execute_on_host(
        plan, *borrow_on_host(sinter, plan, "input", inputs),
        *borrow_on_host(sinter, plan, "output", outputs),
        None if options is None else c.byref(options))


def check(sinter, plan, inputs=None, options=None):
    """Holds a plan against its graph, on inputs as borrow_on_host() takes them or on sample data.
    Returns what was found and the lines that say so."""
    info = CheckInfo()
    tensors = (None, c.c_size_t(0)) if inputs is None else borrow_on_host(
        sinter, plan, "input", inputs)
    report = sinter.text(
        "plan_check", plan, *tensors, None if options is None else c.byref(options), c.byref(info))
    return info, report


class Kernel:
    """A graph in .fir text, planned for a device, compiled, loaded, and called with tensors of any
    framework that tell their address."""

    CUDA = 2  # kDLCUDA

    def __init__(self, sinter, runtime, text, sizes, device=0, check_indices=False, schedule=None,
                 cublaslt=False):
        """`sizes` has the size of every symbol without a hint; `device` is its number;
        `check_indices` lets check_indices() tell which indices of a take were outside; `schedule`
        is the text of one to run as it is; `cublaslt` offers that library's matrix products."""
        self.sinter = sinter
        self.device = device
        text = text.encode()
        limits = sinter.handle("device_query", runtime, c.c_int32(device))
        fusion = sinter.handle("fusion_parse", text, c.c_size_t(len(text)))
        # A schedule is that of one kernel: a graph is cut only where it has to be.
        planning = PlanOptions(
            check_indices=check_indices, cublaslt=cublaslt,
            schedule=schedule.encode() if schedule else None,
            cutting=0 if schedule is None else 1)
        plan = sinter.handle(
            "plan_create", fusion, limits, *extents_of(sizes), c.byref(planning))
        options = PrepareOptions(device=device, forbid_replanning=schedule is not None)
        self.executable = sinter.handle("executable_prepare", runtime, plan, c.byref(options))
        for kind, handle in ("plan", plan), ("fusion", fusion), ("device", limits):
            getattr(sinter, kind + "_release")(handle)
        self.info = ExecutableInfo()
        sinter.executable_describe(self.executable, c.byref(self.info))
        self.inputs = self._tensors("input", self.info.input_count)
        self.outputs = self._tensors("output", self.info.output_count)

    def _tensors(self, side, count):
        infos = [TensorInfo() for _ in range(count)]
        for i, info in enumerate(infos):
            getattr(self.sinter, "executable_" + side)(self.executable, c.c_size_t(i), c.byref(info))
        return infos

    def explain(self):
        """What was chosen and why, and registers and spills of every kernel."""
        return json.loads(self.sinter.text("executable_explain_json", self.executable))

    def _borrow(self, infos, addresses):
        plain = [
            DLTensor(data=address, device=DLDevice(self.CUDA, self.device), ndim=info.rank,
                     dtype=info.dtype, shape=info.shape, strides=info.strides)
            for info, address in zip(infos, addresses, strict=True)
        ]
        # The pointers keep `plain` alive, and the array keeps them.
        return (Tensor * len(plain))(*(Tensor(plain=c.pointer(tensor)) for tensor in plain))

    def bind(self, inputs, outputs, workspace=None):
        """A function of a stream (an address; 0: the legacy default stream) that enqueues one
        execution. Tensors are device addresses and have the shapes and strides of self.inputs and
        self.outputs; their memory, like `workspace`, stays the caller's."""
        borrowed = self._borrow(self.inputs, inputs), self._borrow(self.outputs, outputs)
        args = ExecuteArgs(
            inputs=borrowed[0], input_count=len(inputs), outputs=borrowed[1],
            output_count=len(outputs), workspace=workspace,
            workspace_bytes=self.info.workspace_bytes)

        def execute(stream=0):
            args.stream = stream
            self.sinter.executable_execute(self.executable, c.byref(args))

        return execute

    def check_indices(self, workspace):
        """Raises a SinterError if a take got an index outside of its axis in the execution that
        used this workspace last; the caller has synchronised with it."""
        self.sinter.executable_check_indices(
            self.executable, c.c_void_p(workspace), c.c_int64(self.info.workspace_bytes))

    def release(self):
        self.sinter.executable_release(self.executable)
