#!/usr/bin/env python3
"""The pages of docs/reference, made from the code's own lists, so that they cannot drift.

    scripts/reference_pages.py ATTEST            writes them
    scripts/reference_pages.py ATTEST --check    compares, and exits 1 where one differs (a test does so)

ATTEST is the program, whose help texts are a page of their own. The other pages come from properties.def, regimes.def,
families.def, attest_kernel.h, verdict.cpp and report.schema.json.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE = "<!-- Made by scripts/reference_pages.py; a test compares. -->\n\n"


def text(path):
    return (ROOT / path).read_text()


def table(head, rows):
    cell = lambda c: str(c).replace("|", "\\|").replace("\n", " ")
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows]) + "\n"


def helped(attest, *words):
    # Help is wrapped to the width that it is given.
    return subprocess.run([attest, *words, "--help"], check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "100"}).stdout.strip()


def command_page(attest):
    top = helped(attest)
    names = re.findall(r"^  (\w+) ", top[top.index("Subcommands:"):], re.M)
    out = "# The command, as it helps itself\n\n" + MADE + "[cli.md](../cli.md) says more of each.\n\n```text\n" + top + "\n```\n"
    for name in names:
        page = helped(attest, name)
        out += f"\n## attest {name}\n\n```text\n{page}\n```\n"
        if name == "report":
            for part in re.findall(r"^  (\w+) ", page[page.index("Subcommands:"):], re.M):
                out += f"\n### attest {name} {part}\n\n```text\n{helped(attest, name, part)}\n```\n"
    return out


def properties_page():
    rows = re.findall(r'^ATTEST_PROPERTY\((\w+), "((?:[^"\\]|\\.)*)"\)', text("properties/properties.def"), re.M)
    return "# Properties\n\n" + MADE + "What `attest verify` checks, in this order; `--properties RE` takes those whose name the expression is found in.\n\n" + table(["property", "holds where"], [(f"`{n}`", s) for n, s in rows])


def regimes_page():
    rows = re.findall(r'^ATTEST_REGIME\((\w+), (\w+), (.*?), (.*?), (.*?), "((?:[^"\\]|\\.)*)"\)', text("properties/generate/regimes.def"), re.M)
    out = "# Regimes\n\n" + MADE + "The kinds of input. A case takes one of each axis, and counts for it only if the sentence holds for one of its rows at least.\n"
    for axis in dict.fromkeys(r[0] for r in rows):
        out += f"\n## {axis}\n\n" + table(["regime", "what it is"], [(f"`{r[1]}`", r[5].replace('\\"', '"')) for r in rows if r[0] == axis])
    return out


def faults_page():
    rows = re.findall(r'^ATTEST_FAULT\((\w+), "((?:[^"\\]|\\.)*)"\)', text("reference/diagnosis/families.def"), re.M)
    return "# Faults\n\n" + MADE + "What `attest diagnose` can name. Among those that explain the same outputs the earlier one is named.\n\n" + table(["fault", "the kernel ..."], [(f"`{n}`", s) for n, s in rows])


def verdicts_page():
    source = text("reference/verdict.cpp")
    case = lambda kind: re.findall(rf'case {kind}::\w+: return "([^"]+)";', source)
    exits = re.findall(r'\{Exit::\w+, "([^"]+)"\}', text("cli/exit_code.h"))
    out = "# Verdicts\n\n" + MADE + "## Dispositions\n\nWhat came of a case.\n\n" + table(["disposition"], [(d,) for d in case("Disposition")])
    out += "\n## Checks\n\nIn the order in which they are made; a failure is named after the first that fails.\n\n" + table(["check"], [(c,) for c in case("Check") if c != "none"])
    return out + "\n## Exit codes\n\nWhere several apply, the first of 5, 3, 1, 4, 0.\n\n" + table(["code", "meaning"], list(enumerate(exits)))


def header_page():
    source = text("kernel/abi/attest_kernel.h")
    out = "# The header\n\n" + MADE + "`kernel/abi/attest_kernel.h`, the interface between attest and a kernel: its types and fields, with what it says of each.\n"
    head = re.match(r"/\*(.*?)\*/", source, re.S)[1]
    out += "\n```text\n" + "\n".join(re.sub(r"^ \* ?", "", line) for line in head.strip().splitlines()) + "\n```\n"
    out += "\n" + re.search(r"^#define ATTEST_ABI_VERSION.*$", source, re.M)[0].join(["```c\n", "\n```\n"])
    blocks = re.findall(r"(?:/\*((?:[^*]|\*(?!/))*)\*/\n)?(typedef (?:enum|struct) (\w+) \{.*?\} ?\w+;|struct (\w+) \{.*?\n\};)", source, re.S)
    for said, block, name, plain in blocks:
        words = " ".join(re.sub(r"^\s*\*? ?", "", line) for line in said.strip().splitlines())
        out += f"\n## {name or plain}\n\n" + (words + "\n\n" if words else "") + "```c\n" + block.strip() + "\n```\n"
    return out


def report_page():
    schema = json.loads(text("cli/report/report.schema.json"))
    kind = lambda s: s["$ref"].split("/")[-1] if "$ref" in s else " or ".join(kind(x) for x in s["anyOf"]) if "anyOf" in s else "one of " + ", ".join(f"`{v}`" for v in s["enum"]) if "enum" in s else \
        f"`{s['const']}`" if "const" in s else f"list of {kind(s['items'])}" if s.get("type") == "array" and "items" in s else s.get("type", "anything")
    fields = lambda of: table(["field", "type", "what it is"], [(f"`{name}`", kind(s), s.get("description", "")) for name, s in of["properties"].items()])
    out = "# report.json\n\n" + MADE + f"{schema['description']} The schema, which `attest report` holds every file to, is `cli/report/report.schema.json`.\n\n" + fields(schema)
    for name, s in schema["$defs"].items():
        if s.get("type") == "object" and "properties" in s:
            out += f"\n## {name}\n\n" + (s["description"] + "\n\n" if "description" in s else "") + fields(s)
        for part, inner in s.get("properties", {}).items():
            inner = inner.get("items", inner) if isinstance(inner, dict) else {}
            if inner.get("type") == "object" and "properties" in inner:
                out += f"\n## {part} of a {name}\n\n" + (inner["description"] + "\n\n" if "description" in inner else "") + fields(inner)
    return out


def main():
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[2] != "--check"):
        sys.exit("usage: reference_pages.py ATTEST [--check]")
    pages = {"command.md": command_page(sys.argv[1]), "properties.md": properties_page(), "regimes.md": regimes_page(), "faults.md": faults_page(),
             "verdicts.md": verdicts_page(), "header.md": header_page(), "report.md": report_page()}
    stale = 0
    for name, page in pages.items():
        assert len(page) > 400, name
        path = ROOT / "docs/reference" / name
        if len(sys.argv) == 2:
            path.write_text(page)
        elif not path.exists() or path.read_text() != page:
            print(f"docs/reference/{name} is not what the code says; scripts/reference_pages.py ATTEST writes it")
            stale += 1
    if len(sys.argv) == 3:
        print(f"{len(pages) - stale} of {len(pages)} pages are what the code says")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
