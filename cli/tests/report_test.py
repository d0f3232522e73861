"""The report's files, the comparison of two, and what a terminal sees, as a person uses them.

    report_test.py ATTEST SOURCE MUTANTS HOSTILE EXAMPLE [TEST...]
"""
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree as xml
from html.parser import HTMLParser
from pathlib import Path

ATTEST, SOURCE, MUTANTS, HOSTILE, EXAMPLE = (os.path.abspath(a) for a in sys.argv[1:6])
del sys.argv[1:6]
SCRIPT_KERNEL = HOSTILE + ":<script>document.title='broken'</script>"
BUSY = 20  # seconds that a loaded machine may add to anything


class Ran:
    def __init__(self, done):
        self.exit, self.out, self.err = done.returncode, done.stdout, done.stderr


class Page(HTMLParser):
    """The elements of a page, and the JSON in it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.data, self.inside = [], "", False
        self.feed(text)
        self.report = json.loads(self.data)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = tag == "script" and dict(attributes).get("id") == "data"

    def handle_data(self, data):
        if self.inside:
            self.data += data

    def handle_endtag(self, tag):
        self.inside = False


class InFolder(unittest.TestCase):
    """A folder of its own for every test, in which attest runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attest-report-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def attest(self, *words, **how):
        how.setdefault("stdout", subprocess.PIPE)
        how.setdefault("stderr", subprocess.PIPE)
        return Ran(subprocess.run([ATTEST, *words], cwd=self.folder, stdin=subprocess.DEVNULL, text=True, errors="replace", **how))

    def verify(self, kernel, folder, *words, exit=None):
        ran = self.attest("verify", "--kernel", kernel, "--report", folder, *words)
        if exit is not None:
            self.assertEqual(ran.exit, exit, ran.out + ran.err)
        return ran

    def data(self, folder):
        return json.loads((self.folder / folder / "report.json").read_text())

    def check_schema(self, report):
        import jsonschema
        schema = json.loads(Path(SOURCE, "cli/report/report.schema.json").read_text())
        jsonschema.Draft7Validator(schema).validate(report)

    # What each face says, against the data.
    def check_faces(self, folder):
        report = self.data(folder)
        self.check_schema(report)
        self.assertEqual(Page((self.folder / folder / "report.html").read_text()).report, report)
        suites = xml.parse(self.folder / folder / "junit.xml").getroot()
        runs = report["runs"]
        self.assertEqual(len(suites), len(runs))
        status = lambda word: sum(p["status"] == word for run in runs for p in run["properties"])
        for name, count in [("tests", sum(len(r["properties"]) for r in runs)), ("failures", status("failed")), ("errors", status("inconclusive")),
                            ("skipped", status("not covered") + status("known"))]:
            self.assertEqual(int(suites.get(name)), count, name)
            self.assertEqual(sum(int(s.get(name)) for s in suites), count, name)
        for suite, run in zip(suites, runs):
            cases = suite.findall("testcase")
            self.assertEqual([(c.get("classname"), c.get("name")) for c in cases], [(run["kernel"], p["name"]) for p in run["properties"]])
            for case, p in zip(cases, run["properties"]):
                failure = case.find("failure")
                self.assertEqual(failure is not None, p["status"] == "failed")
                if failure is not None:
                    self.assertIn(f"{p['violations']} of {p['cases']} cases", failure.get("message"))
                    self.assertRegex(failure.text, "replay: |again: ")
            for name in ("cases", "rows", "violations", "elements", "loose"):
                self.assertEqual(run[name], sum(p[name] for p in run["properties"]), name)
            for p in run["properties"]:
                if report["command"] != "fuzz":  # which counts executions, and findings that it does not always see again
                    self.assertEqual(p["violations"], sum(p["checks"].values()), p["name"])
                    self.assertEqual(p["violations"], sum(p["signatures"].values()), p["name"])
                    self.assertEqual(p["cases"], sum(p["dispositions"].values()), p["name"])
                self.assertEqual(sum(run["status"].values()), len(run["properties"]))
                listed = sum(f["property"] == p["name"] for f in run["failures"])
                self.assertLessEqual(listed, p["violations"])
        return report

    def check_table(self, text, run):
        lines = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
        for p in run["properties"]:
            words = lines[p["name"][:35] + "..." if len(p["name"]) > 38 else p["name"]]
            if p["status"] == "not covered":
                self.assertEqual(words[1:3], ["not", "covered:"])
            else:
                self.assertEqual([int(w) for w in words[1:3]], [p["cases"], p["violations"]])


class Report(InFolder):
    def test_the_faces_of_a_failing_run_agree(self):
        ran = self.verify(MUTANTS + ":no_rescale", "out", "--cases", "400", "--properties", "matches_reference|keys_|tile|merge_|v_", exit=1)
        report = self.check_faces("out")
        run = report["runs"][0]
        self.assertEqual((report["command"], report["exit"], run["kernel"]), ("verify", 1, "no_rescale"))
        self.assertGreater(run["violations"], 0)
        self.check_table(ran.out, run)
        self.check_table((self.folder / "out/verify.txt").read_text(), run)
        self.assertIn("verdict: " + run["verdict"], ran.out)
        # Every property that failed has a case that fails again.
        failed = [p["name"] for p in run["properties"] if p["status"] == "failed"]
        self.assertEqual(sorted(set(d["property"] for d in run["details"])), sorted(failed))
        for property in failed:
            detail = next(d for d in run["details"] if d["property"] == property)
            words = detail["replay"].split()
            self.assertEqual(words[:2], ["attest", "replay"])
            self.assertEqual(self.attest(*words[1:]).exit, 1, detail["replay"])
        first = run["details"][0]
        self.assertIn("Let ", first["diagnosis"])
        self.assertTrue(first["states"] and first["states"][0]["kernel"])
        masses = first["masses"]
        self.assertEqual(len(masses["got"]), len(masses["rows"]) * len(masses["tiles"]))
        row = masses["rows"].index(first["place"]["row"])
        expected = masses["expected"][row * len(masses["tiles"]):][:len(masses["tiles"])]
        self.assertAlmostEqual(sum(expected), 1, places=4)
        # A kernel that leaves out the rescale gives earlier tiles too much: its masses are not the expected ones.
        self.assertGreater(max(abs(g - e) for g, e in zip(masses["got"], masses["expected"]) if not isinstance(g, str) and not isinstance(e, str)), 1e-3)

    def test_the_faces_of_a_clean_run_agree(self):
        self.verify("host", "out", "--cases", "300", "--properties", "repeat_call|v_negated", exit=0)
        report = self.check_faces("out")
        self.assertEqual([p["status"] for p in report["runs"][0]["properties"]], ["passed", "passed"])
        p = report["runs"][0]["properties"][0]
        self.assertGreater(sum(p["histograms"]["ratio"]), 0)
        self.assertEqual(sum(p["histograms"]["ratio"][11:]), 0)

    def test_the_faces_agree_where_properties_are_not_covered_or_inconclusive(self):
        self.verify(EXAMPLE, "out", "--cases", "60", exit=4)
        report = self.check_faces("out")
        status = report["runs"][0]["status"]
        self.assertGreater(status["not covered"], 0)
        self.assertGreater(status["inconclusive"], 0)

    def test_histograms_do_not_depend_on_threads(self):
        parts = []
        for threads in ("1", "3"):
            self.verify("host", "out" + threads, "--cases", "60", "--properties", "matches_reference|tile_size", "--threads", threads)
            properties = self.data("out" + threads)["runs"][0]["properties"]
            parts.append([(p["histograms"], p["least_threshold"], p["worst_by_part"], p["dispositions"]) for p in properties])
        self.assertEqual(*parts)
        self.assertGreater(sum(properties[0]["histograms"]["noise"]), 0)
        self.assertTrue(properties[0]["errors_by_keys"])

    def test_replay_writes_a_report(self):
        seeds = os.path.join(SOURCE, "corpus/seeds")
        ran = self.attest("replay", seeds, "--kernel", MUTANTS + ":no_rescale", "--report", "out")
        self.assertEqual(ran.exit, 1, ran.err)
        run = self.check_faces("out")["runs"][0]
        self.assertIsNone(run["seed"])
        for detail in run["details"]:
            self.assertEqual(self.attest(*detail["replay"].split()[1:]).exit, 1, detail["replay"])
        self.assertTrue(run["details"])

    def test_text_of_kernels_stays_text(self):
        for kernel, texts in [(SCRIPT_KERNEL, 2), (HOSTILE + ":hostile", 1)]:
            ran = self.verify(kernel, "out", "--cases", "30", "--properties", "matches_reference|repeat", exit=1)
            self.assertNotRegex(ran.out + ran.err, "[\x00-\x09\x0b-\x1f\x7f]")
            report = self.check_faces("out")
            text = (self.folder / "out/report.html").read_text()
            self.assertEqual(text.count("<script"), 3)  # the page's own
            tags = Page(text).tags
            self.assertEqual(tags.count("script"), 3)
            self.assertNotIn("img", tags)
            self.assertNotIn("b", tags)
            self.assertNotIn("&lt;/b&gt;&lt;b", text)
            self.assertEqual(report["runs"][0]["environment"]["kernel"].count("</script>"), texts)
        self.assertIn("first line second  [31mred", ran.out)
        self.assertEqual([line for line in ran.out.splitlines() if line.startswith("second")], [])

    def test_json_on_stdout_is_json_alone_whatever_a_kernel_prints(self):
        for isolation in ([], ["--no-isolate"]):
            ran = self.attest("verify", "--kernel", SCRIPT_KERNEL, "--cases", "20", "--properties", "repeat_call", "--json", "-", *isolation)
            self.assertEqual(json.loads(ran.out)["cases"], 20, ran.err)
        case = Path(SOURCE, "corpus/seeds/note_tile_of_16.json")
        ran = self.attest("replay", str(case), "--kernel", SCRIPT_KERNEL, "--no-isolate", "--json", "-")
        self.assertEqual(json.loads(ran.out)["seed"], None)
        self.assertIn("noise", ran.err)

    def test_an_earlier_run_is_set_aside_whole(self):
        self.verify(MUTANTS + ":no_rescale", "out", "--cases", "60", "--properties", "matches_reference", exit=1)
        before = {str(p.relative_to(self.folder / "out")) for p in (self.folder / "out").rglob("*") if p.is_file()}
        self.assertTrue(any(name.startswith("failures/") for name in before))
        ran = self.verify("host", "out", "--cases", "60", "--properties", "matches_reference")
        self.assertIn("out/earlier-1", ran.err)
        after = {str(p.relative_to(self.folder / "out/earlier-1")) for p in (self.folder / "out/earlier-1").rglob("*") if p.is_file()}
        self.assertEqual(before, after)
        self.assertFalse((self.folder / "out/failures").exists())
        self.assertEqual(self.data("out")["runs"][0]["kernel"], "host")

    def test_a_signal_keeps_what_was_found(self):
        for kernel, number, exit in [("host", signal.SIGINT, 4), (MUTANTS + ":no_rescale", signal.SIGTERM, 1)]:
            process = subprocess.Popen([ATTEST, "verify", "--kernel", kernel, "--cases", "1000000", "--report", str(number)], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            journal = self.folder / str(number) / "journal.jsonl"
            end = time.monotonic() + 5 * BUSY
            while time.monotonic() < end and not (journal.exists() and journal.read_text().count('"ends"') > 100):
                time.sleep(0.1)
            process.send_signal(number)
            out, err = process.communicate(timeout=5 * BUSY)
            self.assertEqual(process.returncode, exit, out + err)
            run = self.check_faces(str(number))["runs"][0]
            self.assertTrue(run["stopped"])
            self.assertGreater(run["cases"], 0)
            self.assertIn("stopped before its end", out)
            self.assertEqual(run["violations"] > 0, exit == 1)

    def test_time_ends_a_run_between_two_batches(self):
        start = time.monotonic()
        self.verify("host", "out", "--time", "2s")
        self.assertLess(time.monotonic() - start, 2 + BUSY)
        self.assertLess(self.data("out")["runs"][0]["seconds"], 2 + BUSY / 2)
        self.assertGreaterEqual(self.data("out")["runs"][0]["seconds"], 2)

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w") as full:
            for words in (["kernels"], ["verify", "--kernel", "host", "--cases", "2", "--properties", "repeat_call"], ["verify", "--kernel", "host", "--cases", "2", "--properties", "repeat_call", "--json", "-"]):
                ran = self.attest(*words, stdout=full)
                self.assertEqual(ran.exit, 2, words)
                self.assertIn("No space left", ran.err)
                self.assertIn("stdout", ran.err)
        ran = self.attest("verify", "--kernel", "host", "--cases", "2", "--properties", "repeat_call", "--json", "/dev/full")
        self.assertEqual(ran.exit, 2)
        self.assertIn("/dev/full", ran.err)

    def test_a_dry_run_says_how_many_cases_each_property_gets(self):
        plan = self.attest("verify", "--kernel", "host", "--cases", "77", "--properties", "keys_|tile_size", "--dry-run")
        planned = {line.split()[0]: int(line.split()[1]) for line in plan.out.splitlines() if " cases; " in line}
        self.assertEqual(sum(planned.values()), 77)
        self.verify("host", "out", "--cases", "77", "--properties", "keys_|tile_size")
        self.assertEqual(planned, {p["name"]: p["cases"] for p in self.data("out")["runs"][0]["properties"]})

    def test_a_run_in_which_nothing_was_judged_says_so(self):
        ran = self.verify(EXAMPLE, "out", "--properties", "^merge_", exit=4)
        self.assertIn("verdict: nothing was judged", ran.out)
        self.assertNotIn("mix of cases", ran.out)
        self.assertNotIn("nan", ran.out)
        self.check_faces("out")

    # A terminal of 100 columns, and what it was sent.
    def on_terminal(self, *words, **environment):
        outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = subprocess.Popen([ATTEST, *words], cwd=self.folder, stdin=inner, stdout=inner, stderr=inner, env={**os.environ, "TERM": "xterm", **environment})
        os.close(inner)
        text = b""
        while True:
            try:
                part = os.read(outer, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        process.wait()
        os.close(outer)
        return text.decode(errors="replace")

    def test_colour_and_progress_are_for_terminals_and_no_color_is_honoured(self):
        run = ["verify", "--kernel", MUTANTS + ":no_rescale", "--cases", "150", "--properties", "matches_reference|tile"]
        self.assertIn("\x1b[31m", self.on_terminal(*run, NO_COLOR=""))
        plain = self.on_terminal(*run, NO_COLOR="1")
        self.assertNotIn("\x1b[3", plain)
        progress = [line for line in re.findall("\r\x1b\\[K([^\r\n]+)", plain) if " cases, " in line]
        self.assertTrue(progress)
        self.assertRegex(progress[-1], r"^\d+ of 150 cases, \d+/s, \d+ violations? of \d+ signatures?, worst err/bound \S+, \d+ s left, \S")
        for line in progress:
            self.assertLess(len(line), 100)
        self.assertNotIn("\x1b", self.attest(*run).out)

    def test_writing_a_report_costs_at_most_5_percent(self):
        def seconds(*words):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.attest("verify", "--kernel", "host", "--cases", "2500", "--seed", "3", *words)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # Processor time varies by more than that from run to run on a busy machine: one pair of several must show it.
        pairs = []
        for n in range(6):
            pairs.append((seconds(), seconds("--report", f"out{n}")))
            if pairs[-1][1] < 1.05 * pairs[-1][0]:
                break
        print("processor time without and with a report: " + ", ".join(f"{a:.2f} and {b:.2f} s" for a, b in pairs))
        self.assertLess(pairs[-1][1], 1.05 * pairs[-1][0])


class Compared(InFolder):
    """attest report diff and join."""

    def test_a_report_does_not_differ_from_itself(self):
        self.verify("host", "a", "--cases", "200", "--properties", "repeat_call|v_")
        ran = self.attest("report", "diff", "a", "a/report.json")
        self.assertEqual((ran.exit, ran.err), (0, ""))
        self.assertEqual(ran.out, "3 properties compared: 0 newly fail, 0 new signatures, 0 newly pass, 0 moved\n")

    def test_chance_is_no_change_and_a_fault_is_one(self):
        run = ["--cases", "400", "--properties", "matches_reference|keys_permuted|tile_size"]
        self.verify("host", "a", *run, "--seed", "1")
        self.verify("host", "b", *run, "--seed", "2")
        self.verify(MUTANTS + ":no_rescale", "c", *run, "--seed", "1")
        self.assertIn("0 newly fail, 0 new signatures, 0 newly pass, 0 moved", self.attest("report", "diff", "a", "b").out)
        worse = self.attest("report", "diff", "a", "c", "--html", "diff.html")
        self.assertEqual(worse.exit, 1, worse.out)
        self.assertIn("newly fails         host -> no_rescale, matches_reference", worse.out)
        self.assertIn("error moved         host -> no_rescale, matches_reference", worse.out)
        page = (self.folder / "diff.html").read_text()
        self.assertEqual(page.count('<th scope="row" class="failed">'), worse.out.count("newly fails") + worse.out.count("fails in a new way"))
        better = self.attest("report", "diff", "c", "a")
        self.assertEqual(better.exit, 0, better.out)
        self.assertIn("newly inconclusive  no_rescale -> host, matches_reference", better.out)  # 400 cases are too few to pass

    def test_joined_runs_stand_side_by_side(self):
        self.verify("host", "a", "--cases", "40", "--properties", "repeat_call|v_negated")
        self.verify(MUTANTS + ":no_rescale", "b", "--cases", "80", "--properties", "matches_reference")
        mutants = {"attest_report": 1, "command": "join", "exit": 0, "buckets": self.data("a")["buckets"], "runs": [],
                   "mutants": [{"name": "no_rescale", "group": "rescale", "check": "bound", "property": "matches_reference"}]}
        (self.folder / "mutants.json").write_text(json.dumps(mutants))
        ran = self.attest("report", "join", "a", "b", "mutants.json", "--report", "all")
        self.assertEqual(ran.exit, 1, ran.err)
        report = self.check_faces("all")
        self.assertEqual([r["kernel"] for r in report["runs"]], ["host", "no_rescale"])
        self.assertEqual(len(report["mutants"]), 1)
        # Held to one of its parts: the other kernel stands alone.
        self.assertIn("in one report alone no_rescale", self.attest("report", "diff", "a", "all").out)

    def test_what_is_no_report_is_refused_in_one_line(self):
        (self.folder / "x.json").write_text("{}")
        (self.folder / "y.json").write_text('{"attest_report": 99, "runs": []}')
        (self.folder / "z.json").write_text('{"attest_report": 1, "runs": [{"kernel": 3}]}')
        for words, culprit in [(["diff", "x.json", "x.json"], "x.json"), (["diff", "missing", "x.json"], "missing"), (["diff", "y.json", "y.json"], "99"), (["diff", "z.json", "z.json"], "z.json"),
                               (["join", "x.json"], "--report"), ([], "subcommand")]:
            ran = self.attest("report", *words)
            self.assertEqual((ran.exit, ran.out, ran.err.count("\n")), (2, "", 1), ran.err)
            self.assertIn(culprit, ran.err)


class Fuzzed(InFolder):
    """attest fuzz, beside scripts that stand for fuzz targets."""

    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        shutil.copy(ATTEST, self.folder / "bin/attest")

    def target(self, name, script):
        path = self.folder / "bin" / name
        path.write_text("#!/bin/sh\nfor word; do case $word in -artifact_prefix=*) inputs=${word#-artifact_prefix=};; esac; done\n" + script)
        path.chmod(0o755)

    def fuzz(self, *words):
        return Ran(subprocess.run([self.folder / "bin/attest", "fuzz", "--report", "out", *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def test_a_finding_is_a_failure_with_its_details(self):
        kernel = MUTANTS + ":no_rescale"
        case = Path(SOURCE, "corpus/seeds/maximum_rises_every_block.json")
        self.target("fuzz_plugin", f"if [ -e $ATTEST_FINDINGS/a.json ]; then echo; echo '#40 DONE'; sleep 1; exit 0; fi\ncp {case} $ATTEST_FINDINGS/a.json\n"
                                   f"echo; echo '#12 NEW'\necho 'attest: O is wrong' >&2; echo '  replay: attest replay findings/a.json --kernel {kernel}' >&2; exit 77\n")
        self.assertEqual(self.fuzz("--kernel", kernel, "--time", "3s").exit, 1)
        run = self.check_faces("out")["runs"][0]
        self.assertEqual((run["kernel"], run["violations"], run["seed"]), ("no_rescale", 1, None))
        self.assertEqual([p["name"] for p in run["properties"]], ["fuzz_plugin"])
        self.assertGreaterEqual(run["cases"], 52)
        detail = run["details"][0]
        self.assertEqual(detail["replay"], f"attest replay findings/a.json --kernel {kernel}")
        self.assertTrue(detail["states"])
        self.assertIn("Let ", detail["diagnosis"])

    def test_a_crash_without_a_case_is_one_too_and_a_clean_run_is_clean(self):
        self.target("fuzz_crashes", "if [ \"$1\" = --keep-crash ]; then exit 0; fi\necho x > ${inputs}crash-1; echo \"Test unit written to ${inputs}crash-1\"; exit 77\n")
        self.assertEqual(self.fuzz("--time", "1s").exit, 3)
        run = self.check_faces("out")["runs"][0]
        self.assertEqual((run["violations"], run["details"][0]["disposition"], run["details"][0]["case"]), (1, "crashed", ""))
        self.target("fuzz_crashes", "echo; echo '#9 DONE'; sleep 1\n")
        self.assertEqual(self.fuzz("--time", "1s").exit, 0)
        run = self.check_faces("out")["runs"][0]
        self.assertEqual((run["violations"], run["properties"][0]["status"]), (0, "passed"))
        self.assertTrue(run["verdict"].startswith("0 findings of 1 target, "), run["verdict"])

    def test_a_signal_ends_the_target_and_keeps_the_report(self):
        self.target("fuzz_quiet", "trap 'echo; echo \"#7 INT\"; exit 72' INT\ntouch started\nwhile :; do sleep 0.1; done\n")
        process = subprocess.Popen([self.folder / "bin/attest", "fuzz", "--report", "out", "--time", "1h"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + BUSY
        while time.monotonic() < end and not (self.folder / "started").exists():
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=5 * BUSY)
        self.assertEqual(process.returncode, 0, out + err)
        run = self.check_faces("out")["runs"][0]
        self.assertTrue(run["stopped"])
        self.assertEqual(run["cases"], 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
