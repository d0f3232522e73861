"""Runs every command of the README and of docs/ as it stands there.

    doc_commands.py ATTEST SOURCE

A document's sh blocks run line by line, in a folder of its own that looks like the repository. A line ends with code 0, or
with the one that it names: `# exit code 4`, `# any exit code`. A block of another language whose fence names a file
(```python tiled.py) is written to that file. `sh needs-NAME` runs where NAME is there; what is left out is said.
./verify, ./test and .ci/run build everything and are run by .ci/run instead.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ATTEST, SOURCE = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
DOCUMENTS = ["README.md", *sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("docs/**/*.md") if "reference" not in p.parts and "results" not in p.parts)]
NEEDS = {
    "needs-torch": lambda: subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0,
    "needs-fuzz-targets": lambda: "ATTEST_DOCS_FUZZ" in os.environ and shutil.which("clang++-19") is not None,
}


def blocks(text):
    """Pairs of the fence's words and the lines inside."""
    inside, words = None, []
    for line in text.splitlines():
        fence = re.match(r"```(.*)$", line)
        if inside is None and fence:
            words, inside = fence[1].split(), []
        elif inside is not None and line == "```":
            yield words, inside
            inside = None
        elif inside is not None:
            inside.append(line)


def run(document):
    ran = left_out = wrong = 0
    with tempfile.TemporaryDirectory(prefix="attest-docs-") as name:
        work = Path(name)
        for entry in SOURCE.iterdir():
            if entry.name not in ("build", "report", ".git"):
                (work / entry.name).symlink_to(entry)
        (work / ".bin").mkdir()
        (work / ".bin/attest").symlink_to(ATTEST)
        (work / ".bin/python3").symlink_to(sys.executable)
        environment = {**os.environ, "PATH": f"{work}/.bin:{os.environ['PATH']}"}
        for words, lines in blocks((SOURCE / document).read_text()):
            if len(words) == 2 and words[0] != "sh":
                (work / words[1]).write_text("\n".join(lines) + "\n")
            if not words or words[0] != "sh":
                continue
            if len(words) == 2 and not NEEDS[words[1]]():
                print(f"left out: {len(lines)} commands of {document}: {words[1]}")
                left_out += len(lines)
                continue
            for line in lines:
                if not line.strip() or line.startswith("#") or re.match(r"(\./verify|\./test|\.ci/run)", line):
                    continue
                said = re.search(r"# (?:exit code (\d)|any exit code)$", line)
                done = subprocess.run(["bash", "-c", line], cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
                ran += 1
                if not (said and said[1] is None) and done.returncode != int(said[1] if said else 0):
                    print(f"{document}: '{line}' exits {done.returncode}:\n{done.stdout[-3000:]}")
                    wrong += 1
    return ran, left_out, wrong


def main():
    total = [0, 0, 0]
    for document in DOCUMENTS:
        counts = run(document)
        total = [a + b for a, b in zip(total, counts)]
        print(f"{document}: {counts[0]} commands ran", flush=True)
    print(f"{total[0]} commands ran, {total[1]} left out, {total[2]} wrong")
    sys.exit(1 if total[2] or total[0] < 25 else 0)


if __name__ == "__main__":
    main()
