"""The part of sinter_c.h that the test uses, for ctypes: structs field for field, and calls that
raise what went wrong."""

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
