"""python_test.py ATTEST: kernels that are Python functions, as a person would run them. Exits with 4 where NumPy is missing."""
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(4)

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
sys.dont_write_bytecode = True
from attest_case import save_case  # noqa: E402

program = os.path.abspath(sys.argv[1])
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)


def attest(*words):
    return subprocess.run([program, *words, "--python", sys.executable], capture_output=True, text=True)


def expect(ran, exit, *texts):
    both = ran.stdout + ran.stderr
    assert ran.returncode == exit, f"exit {ran.returncode}, expected {exit}:\n{both}"
    for text in texts:
        assert text in both, f"'{text}' is missing in\n{both}"


def kernel(name, body):
    with open(name + ".py", "w") as file:
        file.write(f"import sys; sys.path.insert(0, {here!r})\nimport numpy as np\nfrom numpy_attention import attention\n" + body)
    return f"./{name}.py:kernel"


# The example is right on everything that it takes, and refuses to be more than it is.
example = os.path.join(here, "numpy_attention.py:attention")
expect(attest("kernels", "--kernel", example), 0, "numpy attention", "causal, LSE")
held = attest("verify", "--kernel", example, "--cases", "400", "--threads", "1")
assert held.returncode in (0, 4) and "FAILURE" not in held.stdout and "not covered" in held.stdout, held.stdout + held.stderr

# A wrong one is found, shrunk and replays.
wrong = kernel("wrong", """
def kernel(q, k, v, *, scale, causal):
    o, lse = attention(q, k, v, scale=scale, causal=causal)
    o[..., -1, :] *= np.float32(1.01)
    return o, lse
kernel.attest = attention.attest
""")
found = attest("verify", "--kernel", wrong, "--cases", "60", "--properties", "^matches_reference$", "--threads", "1")
expect(found, 1, "FAILURE: incorrect")
line = re.search(r"replay: attest (replay .*)", found.stdout).group(1)
signature = re.search(r"signature: (.*)", found.stdout).group(1)
for _ in range(3):
    expect(subprocess.run(f"'{program}' {line}", shell=True, capture_output=True, text=True), 1, f"signature: {signature}")

# A case saved from Python, and what a function may do wrong: each told in its own words.
rng = np.random.default_rng(1)
q, k, v = (rng.standard_normal((1, 2, 5, 8)).astype(np.float32) for _ in range(3))
case = save_case("case.safetensors", q, k, v, scale=0.125, causal=True)
expect(attest("replay", case, "--kernel", example), 0)
expect(attest("replay", case, "--kernel", "host"), 0)
expect(attest("replay", case, "--kernel", wrong), 1)
declared = "\nkernel.attest = attention.attest\n"
for name, body, exit, text in (
        ("raises", "def kernel(q, k, v, **_): raise ValueError('the moon is full')", 1, "ValueError: the moon is full"),
        ("shape", "def kernel(q, k, v, **_): return np.zeros(3, np.float32), np.zeros(3, np.float32)", 1, "another shape"),
        ("type", "def kernel(q, k, v, **_): return np.zeros(q.shape), np.zeros(q.shape[:3])", 1, "another type"),
        ("nothing", "def kernel(q, k, v, **_): return 7", 1, "no __dlpack__"),
        ("ends", "def kernel(q, k, v, **_): sys.exit(3)", 1, "SystemExit: 3"),
        ("refuses", "def kernel(q, k, v, **_): raise NotImplementedError('not on Mondays')", 4, "not on Mondays"),
        ("leaves", "import os\ndef kernel(q, k, v, **_): os._exit(3)", 3, "exited with status 3"),
        ("crashes", "import ctypes\ndef kernel(q, k, v, **_): ctypes.string_at(0)", 3, "Segmentation fault")):
    expect(attest("replay", case, "--kernel", kernel(name, body + declared)), exit, text)

# A file that does not load is one line, exit 2.
with open("broken.py", "w") as file:
    file.write("import no_such_module\n")
with open("deaf.py", "w") as file:
    file.write("def kernel(q, k, v, *, scale):\n    return q\n\n\nkernel.attest = {'features': ['causal']}\n")
for spec, text in (("broken.py:kernel", "No module named 'no_such_module'; this is"), ("deaf.py:kernel", "'causal' is declared, but the function takes no 'causal'"), ("wrong.py:nothing", "no function 'nothing'"),
                   ("missing.py:kernel", "no such file"), ("wrong.py", "is not file.py:function")):
    ran = attest("replay", case, "--kernel", spec)
    expect(ran, 2, text)
    assert ran.stdout == "" and ran.stderr.count("\n") == 1, ran.stdout + ran.stderr
print("Python kernels are served, judged and told")
