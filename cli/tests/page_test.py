"""The report's page, opened in Chromium without a window.

    page_test.py ATTEST MUTANTS HOSTILE [TEST...]

ATTEST_SCREENSHOTS names a folder that gets pictures of what the tests saw.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from browser import PROGRAM, Browser  # noqa: E402

if __name__ == "__main__":
    ATTEST, MUTANTS, HOSTILE = (os.path.abspath(a) for a in sys.argv[1:4])
    del sys.argv[1:4]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="attest-page-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)
        cls.report("clean", "host", "--cases", "400", "--properties", "matches_reference|repeat_call|v_negated")
        cls.report("failing", MUTANTS + ":no_rescale", "--cases", "600", "--properties", "matches_reference|tile|keys_|merge_|v_")
        cls.report("hostile", HOSTILE + ":<script>document.title='broken'</script>", "--cases", "20", "--properties", "matches_reference|merge_")
        buckets = json.loads((cls.folder / "clean/report.json").read_text())["buckets"]
        mutants = [{"name": f"mutant {n}", "group": "mask" if n % 3 else "rescale", "check": [None, "bound", "budget"][n % 3], "property": None if n % 3 == 0 else "matches_reference"} for n in range(9)]
        (cls.folder / "mutants.json").write_text(json.dumps({"attest_report": 1, "command": "join", "exit": 0, "buckets": buckets, "runs": [], "mutants": mutants}))
        subprocess.run([ATTEST, "report", "join", "clean", "failing", "mutants.json", "--report", "joined"], cwd=cls.folder, stdout=subprocess.DEVNULL)

    @classmethod
    def report(cls, name, kernel, *words):
        subprocess.run([ATTEST, "verify", "--kernel", kernel, "--report", name, *words], cwd=cls.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def data(self, name):
        return json.loads((self.folder / name / "report.json").read_text())

    def open(self, name, **how):
        page = self.browser.open((self.folder / name / "report.html").as_uri(), **how)
        self.addCleanup(page.close)
        page.wait_for("document.documentElement.dataset.ready === 'yes'")
        return page

    def picture(self, page, name):
        if folder := os.environ.get("ATTEST_SCREENSHOTS"):
            page.screenshot(os.path.join(folder, name + ".png"))

    # Nothing was complained of, nothing was asked of a network, and nothing is wider than the window.
    def check_quiet(self, page, width):
        self.assertEqual(page.complaints, [])
        self.assertEqual([r for r in page.requests if not r.startswith("file:")], [])
        self.assertEqual(len(page.requests), 1)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), width)

    def rows(self, page, table, column):
        return page.run(f"[...document.querySelectorAll('#{table} tbody tr')].map(r => r.children[{column}].textContent)")

    # Types into the filter as a person does, and waits until the page has followed.
    def filter(self, page, field, value):
        drawn = page.run("document.documentElement.dataset.drawn")
        page.run(f"(() => {{ const e = document.getElementById('filter-{field}'); e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input', {{bubbles: true}})); }})()")
        page.wait_for(f"document.documentElement.dataset.drawn !== '{drawn}'")

    def check_charts(self, page, properties):
        """Every chart has as many marks as its data says."""
        total = lambda name: [sum(p["histograms"][name][k] for p in properties) for k in range(23)]
        for n, name in enumerate(("ratio", "noise", "budget")):
            counts = total(name)
            figure = f"document.querySelectorAll('#charts > figure')[{n}]"
            self.assertEqual(page.run(f"{figure}.querySelectorAll('rect.bar').length"), sum(c > 0 for c in counts), name)
            self.assertEqual(page.run(f"[...{figure}.querySelectorAll('rect.bar')].every(r => r.getAttribute('height') > 0 && r.getAttribute('width') > 0)"), True)
            self.assertGreaterEqual(page.run(f"{figure}.querySelectorAll('line.mark').length"), 2 if name == "noise" else 1)
            words = page.run(f"{figure}.querySelector('svg').getAttribute('aria-label')")
            self.assertIn(f"{sum(counts):,}", words)
        points = {(t, e["keys"]) for p in properties for t, list in p["errors_by_keys"].items() for e in list if e["mean"] not in (0, "inf", "nan")}
        self.assertGreater(len(points), 3)
        shown = page.run("document.querySelectorAll('#charts > figure')[3].querySelectorAll('path.point').length")
        self.assertLessEqual(shown, len(points))
        self.assertGreater(shown, len(points) / 2)
        self.assertEqual(page.run("[...document.querySelectorAll('path.guide')].map(g => g.dataset.guide)"), ["√N", "N"])
        self.assertEqual(page.run("[...document.querySelectorAll('#charts path')].filter(p => /NaN|undefined/.test(p.getAttribute('d'))).length"), 0)

    def check_counts(self, page, report):
        run = report["runs"][0]
        self.assertIn(run["verdict"], page.run("document.querySelector('h1').textContent"))
        wanted = sorted((p["name"], p["status"], f"{p['cases']:,}", f"{p['violations']:,}") for p in run["properties"])
        self.assertEqual(sorted(zip(*(self.rows(page, "properties", c) for c in (1, 2, 3, 4)))), wanted)
        regimes = {}
        for p in run["properties"]:
            for name, n in p["regimes"].items():
                regimes[name] = regimes.get(name, 0) + n
        self.assertEqual(dict(zip(self.rows(page, "regimes", 0), self.rows(page, "regimes", 1))), {name: f"{n:,}" for name, n in regimes.items()})
        self.assertEqual(run["regimes"], regimes)

    def test_the_page_of_a_clean_run(self):
        for width, dark in [(1280, False), (1280, True), (390, False)]:
            page, report = self.open("clean", width=width, dark=dark), self.data("clean")
            self.picture(page, f"clean-{width}-{'dark' if dark else 'light'}")
            self.check_quiet(page, width)
            self.check_counts(page, report)
            self.check_charts(page, report["runs"][0]["properties"])
            self.assertEqual(page.run("document.querySelector('.badge').textContent"), "passed" if report["exit"] == 0 else "inconclusive")
            self.assertEqual(page.run("[document.getElementById('section-details').hidden, document.getElementById('section-failures').hidden]"), [True, True])
            colour = page.run("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(colour == "rgb(255, 255, 255)", not dark)

    def test_the_page_of_a_run_with_failures(self):
        report = self.data("failing")
        run = report["runs"][0]
        self.assertTrue(run["details"])
        for width, dark in [(1280, False), (1280, True), (390, True)]:
            page = self.open("failing", width=width, dark=dark)
            self.check_counts(page, report)
            self.check_charts(page, run["properties"])
            self.assertEqual(page.run("document.querySelectorAll('#details > details').length"), len(run["details"]))
            page.run("document.querySelectorAll('#details > details').forEach(d => { d.open = true; })")
            page.wait_for("[...document.querySelectorAll('#details > details')].every(d => d.children.length > 1)")
            for n, d in enumerate(run["details"]):
                box = f"document.querySelectorAll('#details > details')[{n}]"
                text = page.run(f"{box}.textContent")
                for part in (d["replay"], d["signature"], d["seen"], d["case"].strip(), d["diagnosis"].strip()):
                    self.assertIn(part, text)
                cells = sum(not isinstance(g, str) for g in d["masses"]["got"])
                if cells:
                    self.assertEqual(page.run(f"{box}.querySelectorAll('rect.cell').length"), len(d["masses"]["got"]))
                self.assertEqual(page.run(f"[...{box}.querySelectorAll('table')].some(t => t.textContent.includes('exact m')) ? [...{box}.querySelectorAll('table')].find(t => t.textContent.includes('exact m')).tBodies[0].rows.length : 0"), len(d["states"]))
            self.assertGreater(page.run("document.querySelectorAll('#details rect.got').length"), 0)
            self.assertGreater(page.run("document.querySelectorAll('#details td.failed').length"), 0)
            self.picture(page, f"failing-{width}-{'dark' if dark else 'light'}")
            self.check_quiet(page, width)

    def test_the_filter_leaves_what_it_says(self):
        page, report = self.open("joined"), self.data("joined")
        properties = [(n, p) for n, run in enumerate(report["runs"]) for p in run["properties"]]
        count = lambda: int(page.run("document.getElementById('filter-count').textContent").split()[0])
        self.assertEqual(count(), len(properties))
        self.assertFalse(page.run("document.getElementById('section-matrix').hidden"))
        self.filter(page, "kernel", "1")
        self.assertEqual(count(), len(report["runs"][1]["properties"]))
        self.assertEqual(set(self.rows(page, "properties", 0)), {"no_rescale"})
        self.check_charts(page, report["runs"][1]["properties"])
        self.filter(page, "property", "KEYS_")
        self.assertEqual(sorted(self.rows(page, "properties", 1)), sorted(p["name"] for n, p in properties if n == 1 and "keys_" in p["name"]))
        self.filter(page, "property", "")
        self.filter(page, "kernel", "")
        self.filter(page, "status", "failed")
        self.assertEqual(count(), sum(p["status"] == "failed" for _, p in properties))
        self.filter(page, "status", "passed")
        self.assertEqual(page.run("document.querySelectorAll('#details > details').length"), 0)
        self.filter(page, "property", "no such property")
        self.assertEqual(count(), 0)
        page.run("document.querySelector('#filter button').click()")
        page.wait_for(f"document.getElementById('filter-count').textContent.startsWith('{len(properties)} ')")
        self.check_quiet(page, 1280)

    def test_mutants_stand_by_check_where_they_were_run(self):
        page = self.open("joined")
        self.assertEqual(page.run("document.getElementById('mutants-note').textContent"), "6 of 9 mutants fail a property.")
        self.assertEqual(page.run("[...document.querySelectorAll('#mutants th')].map(h => h.textContent)"), ["Group", "Mutants", "bound", "budget", "Survive"])
        table = dict(zip(self.rows(page, "mutants", 0), zip(*(self.rows(page, "mutants", c) for c in (1, 2, 3, 4)))))
        self.assertEqual(table, {"rescale": ("3", "0", "0", "3"), "mask": ("6", "3", "3", "0")})
        self.check_quiet(page, 1280)
        self.assertTrue(self.open("failing").run("document.getElementById('section-mutants').hidden"))

    def test_tables_are_sorted_by_keyboard_too(self):
        page = self.open("failing")
        button = "document.querySelectorAll('#properties th button')[4]"  # violations
        page.run(f"{button}.focus()")
        page.press("Enter")
        page.wait_for("document.querySelectorAll('#properties th')[4].getAttribute('aria-sort') === 'descending'")
        numbers = [int(t.replace(",", "")) for t in self.rows(page, "properties", 4)]
        self.assertEqual(numbers, sorted(numbers, reverse=True))
        self.assertGreater(numbers[0], 0)
        # The focus stays on the heading, so that a second press turns the order.
        self.assertTrue(page.run(f"document.activeElement === {button}"))
        page.press("Enter")
        page.wait_for("document.querySelectorAll('#properties th')[4].getAttribute('aria-sort') === 'ascending'")
        numbers = [int(t.replace(",", "")) for t in self.rows(page, "properties", 4)]
        self.assertEqual(numbers, sorted(numbers))

    def test_the_page_can_be_used_by_keyboard_and_screen_reader(self):
        page = self.open("failing")
        page.press("Tab")
        self.assertEqual(page.run("document.activeElement.className"), "skip")
        page.press("Tab")
        self.assertEqual(page.run("document.activeElement.id"), "filter-kernel")
        self.assertEqual(page.run("document.documentElement.lang"), "en")
        # Everything that takes input has a name, every chart words, every heading cell its scope; headings skip no level.
        self.assertEqual(page.run("[...document.querySelectorAll('select, input')].filter(e => e.labels.length === 0).length"), 0)
        self.assertEqual(page.run("[...document.querySelectorAll('button')].filter(e => !(e.textContent || e.getAttribute('aria-label'))).length"), 0)
        self.assertEqual(page.run("[...document.querySelectorAll('svg')].filter(e => e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label')).length"), 0)
        self.assertEqual(page.run("[...document.querySelectorAll('th')].filter(e => !e.scope).length"), 0)
        self.assertEqual(page.run("[...document.querySelectorAll('.scroll')].filter(e => e.tabIndex !== 0 || !e.getAttribute('aria-label')).length"), 0)
        levels = page.run("[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
        self.assertEqual(levels.count(1), 1)
        self.assertTrue(all(b <= a + 1 for a, b in zip(levels, levels[1:])), levels)
        # Text stands out from its ground by 4.5 to 1 at least, in both colour schemes.
        contrast = """(() => {
          const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(x => x / 255).map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
          const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (c !== 'rgba(0, 0, 0, 0)') return c; } return 'rgb(255, 255, 255)'; };
          const all = [...document.querySelectorAll('p, td, th, h1, h2, h3, dt, dd, summary, code, pre, .passed, .failed, .inconclusive, .not-covered, .quiet')].filter(e => e.textContent.trim() && e.offsetParent);
          return Math.min(...all.map(e => { const a = light(getComputedStyle(e).color), b = light(ground(e)); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }));
        })()"""
        self.assertGreaterEqual(page.run(contrast), 4.5)
        self.assertGreaterEqual(self.open("failing", dark=True).run(contrast), 4.5)

    def test_text_of_kernels_stays_text(self):
        page = self.open("hostile")
        self.check_quiet(page, 1280)
        self.assertTrue(page.run("document.title").startswith("attest: <script>document.title='broken'</script>: "))
        self.assertEqual(page.run("document.scripts.length"), 3)
        self.assertEqual(page.run("document.querySelectorAll('img').length"), 0)
        self.assertIn("<script>document.title='broken'</script>", self.rows(page, "properties", 0))

    def test_ten_thousand_failures_do_not_hang_it(self):
        report = self.data("failing")
        run = report["runs"][0]
        run["failures"] = [dict(run["failures"][n % len(run["failures"])], index=n) for n in range(10000)]
        for p in run["properties"]:
            p["violations"] = 0
        run["properties"][0]["violations"] = run["violations"] = 1000000
        text = (self.folder / "failing/report.html").read_text()
        begin = text.index('<script type="application/json" id="data">') + 42
        many = text[:begin] + json.dumps(report).replace("<", "\\u003c") + text[text.index("</script>", begin):]
        (self.folder / "many").mkdir(exist_ok=True)
        (self.folder / "many/report.html").write_text(many)
        start = time.monotonic()
        page = self.open("many")
        self.assertIn("10,000 of 1,000,000 failures are listed", page.run("document.getElementById('failures-note').textContent"))
        drawn = page.run("performance.now()")
        took = page.run("(() => { const t = performance.now(); document.querySelectorAll('#failures th button')[2].click(); return performance.now() - t; })()")
        self.assertEqual(self.rows(page, "failures", 2)[0], "9999")
        self.filter(page, "property", "matches")
        print(f"10,000 failures: drawn after {drawn:.0f} ms, sorted in {took:.0f} ms, all in {time.monotonic() - start:.1f} s, {len(many) / 2**20:.1f} MiB")
        self.assertLess(took, 5000)
        self.assertLess(len(many), 5 * 2**20)


if __name__ == "__main__":
    if PROGRAM is None:
        print("left out: the report's page is not opened, because there is no chromium (scripts/packages-page.txt)")
        sys.exit(1 if os.environ.get("ATTEST_NEEDS_BROWSER") else 4)
    unittest.main(verbosity=2)
