#!/usr/bin/env python3
"""Turns runs of `attest verify` into findings, ledger entries and a table of kernels by properties.

    scripts/kernel_table.py RUNS DEVICE DATE > docs/results/kernels.md

RUNS holds, for each kernel, KERNEL.strict/verify.json and KERNEL.declared/verify.json (--json of the two contracts), and
findings/KERNEL.CONTRACT/PROPERTY/failures/ with a shrunk case of every property that does not hold. The cases go to
corpus/findings/KERNEL/, the entries to corpus/ledger/KERNEL.tsv, the table to stdout. DEVICE and DATE, as in "H200" and
2026-11-30, are what the findings say of their origin.
"""
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def runs_of(folder):
    """{kernel: {contract: verify.json}}, kernels in the order of their names."""
    all_runs = {}
    for path in sorted(folder.glob("*/verify.json")):
        kernel, _, contract = path.parent.name.rpartition(".")
        if contract in ("strict", "declared"):
            all_runs.setdefault(kernel, {})[contract] = json.loads(path.read_text())
    return all_runs


def shrunk_case(folder):
    cases = [p for p in sorted(folder.glob("failures/*")) if not re.search(r"-(as-found|lost)\.", p.name)]
    return cases[0] if cases else None


def keep(case, kernel, prop, contract, version, device, date):
    """Copies a case into the corpus, with its origin; (path below corpus/findings, signature)."""
    target = ROOT / "corpus/findings" / kernel / (prop + case.suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    if case.suffix != ".json":
        target.write_bytes(case.read_bytes())
        return target, None
    content = json.loads(case.read_text())
    note = f"{kernel} {version} on {device}, contract {contract}, {date}"
    text = case.read_text().rstrip()
    if "origin" in content:
        text = text.replace('"origin": {', f'"origin": {{"note": {json.dumps(note)}, ', 1)
    else:
        text = re.sub(r"\}$", f',\n  "origin": {{"note": {json.dumps(note)}}}\n}}', text)
    target.write_text(text + "\n")
    return target, content.get("signature")


def main():
    folder, device, date = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    runs = runs_of(folder)
    order = [p["name"] for p in next(iter(next(iter(runs.values())).values()))["properties"]]
    cells, versions = {}, {}
    for kernel, by_contract in runs.items():
        some = next(iter(by_contract.values()))
        version = re.search(r"version (\S+)|(\d+\.\d+\S*)", some["environment"].get("kernel", "") + " ")
        versions[kernel] = some["environment"].get("kernel", kernel)
        entries = []
        for prop in order:
            for contract, run in by_contract.items():
                p = next(q for q in run["properties"] if q["name"] == prop)
                if p["not_covered"]:
                    text = "not covered"
                elif p["violations"]:
                    text = f"{p['violations']} of {p['cases']}"
                    case = shrunk_case(folder / "findings" / f"{kernel}.{contract}" / prop) or (contract == "declared" and shrunk_case(folder / "findings" / f"{kernel}.strict" / prop))
                    if case:
                        number = version.group(1) or version.group(2) if version else "?"
                        target, signature = keep(case, kernel, prop, contract, number, device, date)
                        text = f"[{text}]({os.path.relpath(target, ROOT / 'docs/results')})"
                        if signature:
                            entries.append(f"{number}..{number}\t{prop}\t{signature}\t{target.relative_to(ROOT / 'corpus/findings')}\t{date}")
                elif p["inconclusive"]:
                    text = f"no violation in {p['cases']}, too few"
                else:
                    text = "holds"
                cells[prop, kernel, contract] = text
        if entries:
            (ROOT / "corpus/ledger" / f"{kernel}.tsv").write_text("versions\tproperty\tsignature\treason\tsince\n" + "\n".join(sorted(set(entries))) + "\n")
    for contract in ("strict", "declared"):
        kernels = [k for k in runs if contract in runs[k]]
        print(f"\n## Contract {contract}\n\n| property | " + " | ".join(kernels) + " |\n|" + " --- |" * (len(kernels) + 1))
        for prop in order:
            print(f"| {prop} | " + " | ".join(cells[prop, k, contract] for k in kernels) + " |")
        print("| cases | " + " | ".join(str(runs[k][contract]["cases"]) for k in kernels) + " |")
        print("| not covered | " + " | ".join(str(runs[k][contract]["not_covered"]) for k in kernels) + " |")


if __name__ == "__main__":
    main()
