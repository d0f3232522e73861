"""attest_case.py: a case for attest out of a Python program. One file, to be copied; it needs the standard library alone.

    from attest_case import save_case
    save_case("bug.safetensors", q, k, v, scale=0.125, causal=True, mask=visible)

Tensors are [B, H, N, D], NumPy arrays, PyTorch tensors (any device) or anything else with tobytes(), dtype and shape.
`attest replay bug.safetensors --kernel K` judges the case; corpus/format.md says what each keyword means.

In a test suite, the fixture `attest_replay` fails the test where kernel K is wrong on the case, and keeps the file:

    from attest_case import attest_replay
    def test_my_attention(attest_replay):
        attest_replay(q, k, v, kernel="my_kernel.py:attention", causal=True)
"""
import json
import os
import re
import struct
import subprocess

_TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "uint8": "U8", "bool": "BOOL", "int32": "I32", "int64": "I64"}
_TENSORS = ("mask", "bias", "key_lengths", "sink")


def _bytes(name, tensor):
    dtype = str(tensor.dtype).split(".")[-1]
    if dtype not in _TYPES:
        raise TypeError(f"{name}: {dtype} is none of {', '.join(_TYPES)}")
    shape = [int(n) for n in tensor.shape]
    if hasattr(tensor, "detach"):  # PyTorch, whose bfloat16 NumPy does not know
        tensor = tensor.detach().cpu().contiguous()
        tensor = tensor.view(__import__("torch").uint8 if tensor.numel() else tensor.dtype).numpy() if dtype == "bfloat16" else tensor.numpy()
    return _TYPES[dtype], shape, tensor.tobytes()


def save_case(path, q, k, v, *, property=None, **more):
    """Writes one case. `more`: mask, bias, key_lengths, sink as tensors, and any text of the metadata: scale, softcap,
    causal, window_left, window_right, tile_keys, splits, name. Returns the path."""
    tensors = {"q": q, "k": k, "v": v}
    tensors.update({name: more.pop(name) for name in _TENSORS if more.get(name) is not None})
    metadata = {"attest_case": "1"}
    metadata.update({name: str(value) for name, value in more.items() if value is not None and name not in _TENSORS})
    if property is not None:
        metadata["property"] = property
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        dtype, shape, content = _bytes(name, tensor)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def attest_replay(request, tmp_path):
        """A function that saves a case under the test's name and fails where `attest replay` does not hold on it."""

        def check(q, k, v, *, kernel, attest=os.environ.get("ATTEST", "attest"), **more):
            path = save_case(tmp_path / (re.sub(r"[^A-Za-z0-9_.-]", "_", request.node.name) + ".safetensors"), q, k, v, **more)
            ran = subprocess.run([attest, "replay", str(path), "--kernel", kernel], capture_output=True, text=True)
            assert ran.returncode == 0, f"attest replay {path} --kernel {kernel} exits {ran.returncode}:\n{ran.stdout}{ran.stderr}"

        return check
