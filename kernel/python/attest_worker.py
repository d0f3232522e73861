"""attest_worker.py: a worker whose kernel is a Python function. Started by attest, in the user's own python3:

    python3 attest_worker.py LIBRARY ENDS file.py:function

The function is called as

    function(q, k, v, *, scale, causal, stream, <what it declares>)

with objects that have __dlpack__ and __dlpack_device__: numpy.from_dlpack(q), torch.from_dlpack(q) take them without a copy.
It returns O, or (O, LSE) where it declares "lse"; on the CPU anything with __dlpack__, which is copied into the output. A
function that takes `out` (and `lse_out`) writes there itself and returns None; on the GPU it must.

What the kernel can do stands in an attribute, of which everything may be left out:

    function.attest = {"name": "mine", "version": "1", "device": "cpu", "types": ["f32", "f16"], "head_width_max": 256,
                       "features": ["causal", "grouped_heads", "lse"]}

`window`, `key_lengths`, `mask`, `bias_f32`, `bias_input_type`, `softcap`, `sink` as features are keyword arguments, too
(window_left, window_right, key_lengths, mask, bias, softcap, sink), None or -1 where a case has none. NotImplementedError
refuses a case, any other exception is a failure of the kernel. attest says what each means: kernel/abi/attest_kernel.h.

Nothing is imported but the standard library; the tensors are good until the function returns.
"""

import ctypes as c
import importlib.util
import inspect
import os
import sys

CPU, CUDA = 1, 2
OK, UNSUPPORTED, FAILED = 0, 1, 2
TYPES = {"f32": 1, "f16": 2, "bf16": 3}
FEATURES = ["causal", "window", "key_lengths", "mask", "bias_f32", "bias_input_type", "softcap", "sink", "grouped_heads", "lse", "strides", "unaligned"]

# What a function that declares a feature is told of it.
PARAMETERS = {"causal": ["causal"], "window": ["window_left", "window_right"], "key_lengths": ["key_lengths"], "mask": ["mask"], "bias_f32": ["bias"],
              "bias_input_type": ["bias"], "softcap": ["softcap"], "sink": ["sink"]}


class DLDevice(c.Structure):
    _fields_ = [("device_type", c.c_int), ("device_id", c.c_int)]


class DLDataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", DLDevice), ("ndim", c.c_int), ("dtype", DLDataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Args(c.Structure):
    _fields_ = ([("struct_size", c.c_uint32), ("layout", c.c_int32)]
                + [(name, c.POINTER(DLTensor)) for name in ("q", "k", "v", "o", "lse", "key_lengths", "mask", "bias", "sink")]
                + [("scale", c.c_float), ("softcap", c.c_float), ("causal", c.c_int32), ("reserved", c.c_int32),
                   ("window_left", c.c_int64), ("window_right", c.c_int64), ("tile_keys", c.c_int64), ("tile_order", c.c_int32),
                   ("split_count", c.c_int32), ("p_type", c.c_int32), ("reserved2", c.c_int32),
                   ("workspace", c.c_void_p), ("workspace_bytes", c.c_uint64), ("trace", c.c_void_p)])


SUPPORTS = c.CFUNCTYPE(c.c_int32, c.POINTER(Args), c.c_void_p, c.c_size_t)
FORWARD = c.CFUNCTYPE(c.c_int, c.POINTER(Args), c.c_void_p, c.c_void_p, c.c_size_t)


class Conventions(c.Structure):
    _fields_ = [(name, c.c_int32) for name in ("causal_top_left", "empty_row_o_nan", "empty_row_lse_inf", "nonfinite_v_leaks", "batch_dependent", "sink_first")]


class Numerics(c.Structure):
    _fields_ = ([(name, c.c_int32) for name in ("p_type", "p_rounding", "l_from", "acc_type", "acc_rounding", "split_state_type")]
                + [("sum_depth", c.c_int64), ("tile", c.c_int64), ("exp_rel_error", c.c_float), ("max_lag", c.c_float)])


class Table(c.Structure):
    _fields_ = [("abi_version", c.c_uint32), ("struct_size", c.c_uint32), ("name", c.c_char_p), ("version", c.c_char_p), ("device", c.c_int32),
                ("features", c.c_uint32), ("types", c.POINTER(c.c_int32)), ("type_count", c.c_uint32), ("head_width_count", c.c_uint32),
                ("head_widths", c.POINTER(c.c_int32)), ("head_width_max", c.c_int32), ("tile_count", c.c_uint32), ("tiles", c.c_void_p),
                ("split_count", c.c_uint32), ("order_count", c.c_uint32), ("splits", c.c_void_p), ("orders", c.c_void_p), ("p_types", c.c_void_p),
                ("p_type_count", c.c_uint32), ("reserved", c.c_uint32), ("conventions", Conventions), ("numerics", Numerics),
                ("supports", SUPPORTS), ("workspace_bytes", c.c_void_p), ("forward", FORWARD), ("merge", c.c_void_p),
                ("trace_capacity", c.c_void_p), ("reentrant", c.c_int32), ("reserved2", c.c_int32)]


new_capsule = c.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = c.py_object, [c.c_void_p, c.c_char_p, c.c_void_p]
capsule_pointer = c.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


class Tensor:
    """Memory of attest's, for numpy.from_dlpack and its like."""

    def __init__(self, library, pointer):
        self._library, self._pointer = library, pointer

    @property
    def shape(self):
        t = self._pointer.contents
        return tuple(t.shape[n] for n in range(t.ndim))

    def __dlpack__(self, *, stream=None, **_):
        managed = self._library.attest_worker_hand(self._pointer)
        if not managed:
            raise BufferError("a tensor of more than eight dimensions")
        return new_capsule(managed, b"dltensor", None)

    def __dlpack_device__(self):
        device = self._pointer.contents.device
        return (device.device_type, device.device_id)


def copy_out(library, returned, name, output):
    if not hasattr(returned, "__dlpack__"):
        raise TypeError(f"{name} is returned as {type(returned).__name__}, which has no __dlpack__")
    if returned.__dlpack_device__()[0] != CPU:
        raise TypeError(f"{name} is returned on a device; take `out` and write there")
    capsule = returned.__dlpack__()
    # A DLManagedTensor begins with its DLTensor. `returned` owns the memory until the copy is made.
    tensor = c.cast(capsule_pointer(capsule, b"dltensor"), c.POINTER(DLTensor))
    wrong = library.attest_worker_copy(tensor, output)
    if wrong:
        raise TypeError(f"{name} is returned with another {('shape', 'type', 'device')[wrong - 1]} than the output has")


def load(spec):
    path, _, name = spec.rpartition(":")
    if not path:
        raise ValueError(f"'{spec}' is not file.py:function")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such file: '{path}'")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    module_spec = importlib.util.spec_from_file_location("attest_kernel_module", path)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    module_spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"'{path}' has no function '{name}'")
    return function, name


def make_table(library, function, name):
    told = dict(getattr(function, "attest", {}))
    types = told.pop("types", ["f32"])
    features = told.pop("features", [])
    device = told.pop("device", "cpu")
    conventions, numerics = told.pop("conventions", {}), told.pop("numerics", {})
    for kind, given, known in (("type", types, TYPES), ("feature", features, FEATURES), ("device", [device], ("cpu", "cuda")),
                               ("convention", conventions, [f[0] for f in Conventions._fields_]), ("figure of numerics", numerics, [f[0] for f in Numerics._fields_])):
        for one in given:
            if one not in known:
                raise ValueError(f"{name}.attest: unknown {kind} '{one}'")
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for feature in features:
        for parameter in PARAMETERS.get(feature, ()):
            if not takes_all and parameter not in parameters:
                raise ValueError(f"{name}.attest: '{feature}' is declared, but the function takes no '{parameter}'")
    table = Table()
    table.abi_version, table.struct_size = 1, c.sizeof(Table)
    table.name, table.version = str(told.pop("name", name)).encode(), str(told.pop("version", "1")).encode()
    table.device = CUDA if device == "cuda" else CPU
    table.features = sum(1 << FEATURES.index(f) for f in set(features))
    table.types, table.type_count = (c.c_int32 * len(types))(*(TYPES[t] for t in types)), len(types)
    table.head_width_max = int(told.pop("head_width_max", 256))
    table.conventions, table.numerics = Conventions(**conventions), Numerics(**numerics)
    if told:
        raise ValueError(f"{name}.attest: unknown field '{next(iter(told))}'")

    def say(message, size, text):
        words = text.replace("\n", " ").encode()[:size - 1] + b"\0"
        c.memmove(message, words, len(words))

    def forward(arguments, stream, message, size):
        try:
            a = arguments.contents
            tensor = lambda pointer: Tensor(library, pointer) if pointer else None
            extra = {"scale": a.scale, "causal": bool(a.causal), "stream": stream, "window_left": a.window_left, "window_right": a.window_right,
                     "softcap": a.softcap, "key_lengths": tensor(a.key_lengths), "mask": tensor(a.mask), "bias": tensor(a.bias),
                     "sink": tensor(a.sink), "out": tensor(a.o), "lse_out": tensor(a.lse)}
            given = extra if takes_all else {key: value for key, value in extra.items() if key in parameters}
            returned = function(tensor(a.q), tensor(a.k), tensor(a.v), **given)
            if returned is None and "out" in given:
                return OK
            o, lse = returned if isinstance(returned, tuple) else (returned, None)
            copy_out(library, o, "O", a.o)
            if a.lse:
                if lse is None:
                    raise TypeError("no LSE is returned, but 'lse' is declared")
                copy_out(library, lse, "LSE", a.lse)
            return OK
        except NotImplementedError as e:
            say(message, size, str(e) or "not implemented")
            return UNSUPPORTED
        except BaseException as e:  # whatever a kernel raises is told as its failure, SystemExit too
            say(message, size, f"{type(e).__name__}: {e}")
            return FAILED

    table.supports, table.forward = SUPPORTS(lambda *_: 1), FORWARD(forward)
    return table


def main():
    library = c.CDLL(sys.argv[1])
    ends, spec = sys.argv[2].encode(), sys.argv[3]
    library.attest_worker_hand.restype, library.attest_worker_hand.argtypes = c.c_void_p, [c.POINTER(DLTensor)]
    library.attest_worker_copy.argtypes = [c.POINTER(DLTensor), c.POINTER(DLTensor)]
    library.attest_worker_serve.argtypes = [c.c_char_p, c.POINTER(Table)]
    library.attest_worker_refuse.argtypes = [c.c_char_p, c.c_char_p]
    try:
        sizes = [c.c_uint32() for _ in range(3)]
        library.attest_worker_sizes(*(c.byref(s) for s in sizes))
        if [s.value for s in sizes] != [1, c.sizeof(Table), c.sizeof(Args)]:
            raise RuntimeError(f"{sys.argv[1]} and {__file__} are of different versions of attest")
        table = make_table(library, *load(spec))
    except BaseException as e:  # a file that cannot be imported is told in one line, SystemExit too
        hint = f"; this is {sys.executable}, --python names another one" if isinstance(e, ModuleNotFoundError) else ""
        return library.attest_worker_refuse(ends, f"'{spec}' does not load: {type(e).__name__}: {e}{hint}".replace("\n", " ").encode())
    return library.attest_worker_serve(ends, c.byref(table))


if __name__ == "__main__":
    os._exit(main())
