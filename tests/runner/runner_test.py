#!/usr/bin/env python3
"""Tests of run_test.py, on programs that print what a GoogleTest program would."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).resolve().parent / "run_test.py"
PASSES = """echo '[==========] Running 2 tests from 1 test suite.'
echo '[ RUN      ] A.Passes'
echo noise
echo '[       OK ] A.Passes (0 ms)'
echo '[ RUN      ] A.IsSkipped'
echo '[  SKIPPED ] A.IsSkipped (0 ms)'
"""
FAILS = PASSES + """echo '[ RUN      ] A.Fails'
echo 'file.cc:3: Failure'
echo '[  FAILED  ] A.Fails (1 ms)'
exit 1
"""


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "program"
        self.count = self.folder / "count"
        self.data = self.folder / "data"
        self.data.mkdir()
        (self.data / "golden").write_text("1")

    def write(self, text):
        self.program.write_text(f"#!/bin/sh\necho x >>{self.count}\n{text}")
        self.program.chmod(0o755)

    def run_it(self, *options, **environment):
        run = subprocess.run(
            [sys.executable, RUNNER, *options, "--", self.program], cwd=self.folder, text=True,
            env={**os.environ, "GANGWAY_RESULTS": str(self.folder / "results"), **environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return run.returncode, run.stdout

    def runs(self):
        return len(self.count.read_text().split()) if self.count.exists() else 0

    def test_a_pass_is_one_line(self):
        self.write(PASSES)
        status, text = self.run_it()
        self.assertEqual(status, 0)
        self.assertIn("program: 1 passed, 1 skipped", text)
        self.assertNotIn("noise", text)

    def test_a_failure_shows_the_tests_that_failed(self):
        self.write(FAILS)
        status, text = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("file.cc:3: Failure", text)
        self.assertNotIn("noise", text)

    def test_a_crash_names_the_test_that_ran(self):
        self.write(PASSES + "echo '[ RUN      ] A.Crashes'\necho last words\nkill -SEGV $$\n")
        status, text = self.run_it()
        self.assertNotEqual(status, 0)
        self.assertIn("last words", text)
        self.assertIn("A.Crashes did not end", text)
        self.assertIn("ended by SIGSEGV", text)

    def test_an_exit_in_the_middle_of_a_test_is_a_failure(self):
        self.write(PASSES + "echo '[ RUN      ] A.Leaves'\nexit 0\n")
        status, text = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("A.Leaves did not end", text)

    def test_a_test_that_hangs_is_ended_and_named(self):
        self.write(PASSES + "echo '[ RUN      ] A.Hangs'\nexec sleep 1000\n")
        status, text = self.run_it("--timeout", "0.5")
        self.assertEqual(status, 1)
        self.assertIn("A.Hangs did not end", text)

    def test_a_program_without_tests_fails(self):
        self.write("echo '[==========] Running 0 tests from 0 test suites.'\n")
        status, text = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("ran no test", text)

    def test_half_a_line_before_a_result_hides_nothing(self):
        self.write(PASSES + "echo '[ RUN      ] A.B/0'\nprintf half\n"
                   "echo '[  FAILED  ] A.B/0, where GetParam() = 3 (0 ms)'\nexit 1\n")
        status, text = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("A.B/0, where", text)

    def test_a_pure_pass_is_remembered(self):
        self.write(PASSES)
        self.run_it("--pure", "--data", self.data)
        status, text = self.run_it("--pure", "--data", self.data)
        self.assertEqual((status, self.runs()), (0, 1))
        self.assertIn("remembered: 1 passed", text)

    def test_what_is_not_pure_always_runs(self):
        self.write(PASSES)
        self.run_it()
        self.run_it()
        self.assertEqual(self.runs(), 2)

    def test_a_failure_is_not_remembered(self):
        self.write(FAILS)
        self.run_it("--pure")
        status, _ = self.run_it("--pure")
        self.assertEqual((status, self.runs()), (1, 2))

    def test_another_program_runs(self):
        self.write(PASSES)
        self.run_it("--pure")
        self.write(PASSES + "true\n")
        self.run_it("--pure")
        self.assertEqual(self.runs(), 2)

    def test_other_data_runs(self):
        self.write(PASSES)
        self.run_it("--pure", "--data", self.data)
        (self.data / "golden").write_text("2")
        self.run_it("--pure", "--data", self.data)
        (self.data / "golden").rename(self.data / "renamed")
        self.run_it("--pure", "--data", self.data)
        self.assertEqual(self.runs(), 3)

    def test_another_tool_runs(self):
        self.write(PASSES)
        tool = self.folder / "tool"
        for text in ("1", "2"):
            tool.write_text(text)
            self.run_it("--pure", "--tool", tool)
        self.assertEqual(self.runs(), 2)

    def test_another_variable_runs_and_others_are_not_passed(self):
        self.write(PASSES + 'test -z "$OTHER" || exit 1\n')
        self.run_it("--pure")
        self.run_it("--pure", GW_TEST_SEED="7")
        status, _ = self.run_it("--pure", OTHER="1")
        self.assertEqual((status, self.runs()), (0, 2))

    def test_another_run_of_ci_remembers(self):
        self.write(PASSES)
        for begun in ("1", "2"):
            self.run_it("--pure", GANGWAY_CI_BEGAN=begun, GANGWAY_THIRD=begun,
                        GANGWAY_SAVED=str(self.folder / begun))
        self.assertEqual(self.runs(), 1)

    def test_a_damaged_entry_runs_again(self):
        self.write(PASSES)
        self.run_it("--pure")
        for entry in (self.folder / "results").iterdir():
            entry.write_text("{")
        status, _ = self.run_it("--pure")
        self.assertEqual((status, self.runs()), (0, 2))

    def test_a_store_that_can_not_be_written_costs_nothing_else(self):
        self.write(PASSES)
        (self.folder / "results").write_text("a file")
        status, text = self.run_it("--pure")
        self.assertEqual(status, 0)
        self.assertIn("not remembered", text)


if __name__ == "__main__":
    unittest.main()
