# SPDX-License-Identifier: MIT
"""The tool that makes mutants: what it may leave out of the score, and what it compares with."""
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import argued
import build
import coverage
import operators
import score
import trial

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = """int one(int a)
{
	if (a)
		stop();
	return a;
}

void two(void)
{
	stop();
}
"""


def mutants(source=SOURCE, path="src/a.c"):
    return [score.named(mutant, source) for mutant in operators.mutants(path, source)]


class Folder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Argued(Folder):
    def arguments(self, text):
        return argued.Arguments(lambda path: mutants(path=path), self.file("survivors", text))

    def reported(self, text, outcome):
        """The report on a book in which all mutants have @outcome."""
        book = score.Book(os.path.join(self.folder, "book"))
        for mutant in mutants():
            book.add(mutant, {"outcome": outcome, "by": "unit.a"})
        return score.report(book, mutants(), self.arguments(text))

    def test_a_named_mutant_leaves_the_score_and_is_printed(self):
        told = "## It is a hint.\nsrc/a.c: if (a) => if (!(a))\n"
        shown = self.reported(told, "survived")
        self.assertRegex(shown, r"(?m)^argued: src/a\.c:3: condition: .*\n    It is a hint\.$")
        self.assertIn(f"caught 0 of {len(mutants()) - 1}: 0.0 %; 1 more are argued", shown)

    def test_one_that_is_caught_counts_all_the_same(self):
        told = "## It is a hint.\nsrc/a.c: if (a) => if (!(a))\n"
        shown = self.reported(told, "caught")
        self.assertIn("argued, yet caught: src/a.c:3: ", shown)
        self.assertIn(f"caught {len(mutants())} of {len(mutants())}: 100.0 %; 0 more", shown)

    def test_other_words_do_not_count(self):
        for told in ("src/a.c: if (a) => if (!(a))",
                     "## \nsrc/a.c: if (a) => if (!(a))",
                     "## Why.\nsrc/a.c: if (a)",
                     "## Why.\nsrc/a.c: if (a) => if (a)",
                     "## Why.\nsrc/a.c: if (b) => if (!(b))",
                     "## Why.\nsrc/b.c: if (a) => if (!(a))"):
            shown = self.reported(told, "survived")
            self.assertIn("; 0 more are argued", shown, told)
            self.assertNotIn("\nargued: ", shown, told)
            if "b.c" not in told:
                self.assertIn("not count", shown, told)

    def test_words_that_fit_two_mutants_have_to_stand_there_twice(self):
        told = "src/a.c: stop(); => ;\n"
        for times, nr in ((1, 0), (2, 2), (3, 0)):
            shown = self.reported("## Why.\n" + told * times, "survived")
            self.assertIn(f"; {nr} more are argued", shown)


    def test_words_in_one_function(self):
        for name, nr in (("one", 1), ("two", 1), ("three", 0)):
            shown = self.reported(f"## Why.\nsrc/a.c {name}(): stop(); => ;\n", "survived")
            self.assertIn(f"; {nr} more are argued", shown)
            self.assertEqual("not count" in shown, not nr)


class Numbers(unittest.TestCase):
    def test_a_number_becomes_the_next(self):
        source = "int a(void)\n{\n\treturn open(p, 0644, 9, 0x1fu, 1, 00);\n}\n"
        found = {(source[each.start:each.start + each.length], each.text)
                 for each in operators.mutants("a.c", source) if each.kind == "constant"}
        self.assertEqual(found, {("0644", "421"), ("9", "10"), ("0x1fu", "32u"), ("1", "0"),
                                 ("00", "1")})


class Originals(Folder):
    def trial(self, source, text):
        """Of @text, in place of @source, which the tree has now."""
        path = self.file("src/core/slab/a.c", source)
        words = ["cc", "-iquote", "src", "-c", path, "-o", "a.o"]
        output = os.path.join(self.folder, "slub_objects.dir", "a.o")
        tests = build.Tests(self.folder, {
            "root": self.folder, "tests": [], "tool": None,
            "users": {"src/core/slab/a.c": [output]},
            "commands": {output: {"words": words, "source": path}}})
        worker = os.path.join(self.folder, "worker")
        os.makedirs(worker, exist_ok=True)
        return trial.Trial(tests, worker, mutants(source, "src/core/slab/a.c")[0], source,
                           text), output

    def changed(self, source, text):
        """Is @text another program than @source?"""
        return self.trial(source, text)[0].is_changed()

    def test_a_mutant_is_compared_with_the_source_of_today(self):
        before, after = "int a(void)\n{\n\treturn 1;\n}\n", "int a(void)\n{\n\treturn 2;\n}\n"
        self.assertTrue(self.changed(before, after))
        self.assertFalse(self.changed(after, after))

    def test_what_the_preprocessor_drops_is_not_compiled(self):
        source = SOURCE + "#define UNUSED(a) (a + 1)\n"
        for text, same in ((source.replace("a + 1", "a - 1"), True),
                           (source.replace("if (a)", "if (!a)"), False)):
            one, output = self.trial(source, text)
            self.assertEqual(one.is_changed(), not same)
            self.assertEqual(one.object(output) == output, same)

    def test_a_mutant_that_does_not_compile_is_told(self):
        self.assertIsNone(self.changed(SOURCE, SOURCE.replace("return a;", "return b;")))

    def test_a_source_of_the_command_has_the_headers_beside_it(self):
        path = self.file("tools/slub/a.c", '#include "a.h"\n' + SOURCE)
        self.file("tools/slub/a.h", "#define A 1\nvoid stop(void);\n")
        output = os.path.join(self.folder, "slub_tool.dir", "a.o")
        tests = build.Tests(self.folder, {
            "root": self.folder, "tests": [], "tool": None, "users": {"tools/slub/a.c": [output]},
            "commands": {output: {"words": ["cc", "-c", path, "-o", "a.o"], "source": path}}})
        worker = os.path.join(self.folder, "worker")
        os.makedirs(worker)
        for text, changed in ((SOURCE, False), (SOURCE.replace("if (a)", "if (!a)"), True)):
            text = '#include "a.h"\n' + text
            one = trial.Trial(tests, worker, mutants(path="tools/slub/a.c")[0],
                              '#include "a.h"\n' + SOURCE, text)
            self.assertIs(one.is_changed(), changed)

    def test_a_header_of_the_command_is_seen_by_the_sources_beside_it(self):
        header = "struct a;\nstatic inline int one(int a)\n{\n\treturn a + 1;\n}\n"
        path = self.file("tools/slub/a.c",
                         '#include "b.h"\nint two(int a)\n{\n\treturn one(a);\n}\n')
        self.file("tools/slub/a.h", header)
        self.file("tools/slub/b.h", '#include "a.h"\n')
        output = os.path.join(self.folder, "slub_tool.dir", "a.o")
        tests = build.Tests(self.folder, {
            "root": self.folder, "tests": [], "tool": None, "users": {"tools/slub/a.h": [output]},
            "commands": {output: {"words": ["cc", "-O1", "-c", path, "-o", "a.o"],
                                  "source": path}}})
        for text, changed in ((header, False), (header.replace("a + 1", "a - 1"), True),
                              (header.replace("a + 1", "b"), None)):
            worker = tempfile.mkdtemp(dir=self.folder)
            one = trial.Trial(tests, worker, mutants(header, "tools/slub/a.h")[0], header, text)
            self.assertIs(one.is_changed(), changed)
            one.over()
            self.assertFalse([name for name in os.listdir(worker) if name in ("src", "tools")])

    def test_a_program_without_the_mutant_is_neither_linked_nor_run(self):
        one, output = self.trial(SOURCE, SOURCE.replace("if (a)", "if (!a)"))
        self.file("bin/link", "")
        link = {"folder": self.folder, "program": "/b/test", "words": ["false", "b.o", "-o", "x"]}
        self.assertEqual(one.linked(link), "/b/test")
        link["words"][1] = output
        self.assertIsNone(one.linked(link))

    def test_a_source_that_was_edited_meanwhile_is_refused(self):
        mutant = mutants()[0]
        self.file("src/a.c", "\n" + SOURCE)
        tests = build.Tests(self.folder, {"root": self.folder, "tests": [], "users": {},
                                          "tool": None, "commands": {}})
        with self.assertRaisesRegex(RuntimeError, "was edited during the run"):
            trial.run(tests, self.folder, mutant)


class Built(Folder):
    """What is run and linked for a mutant."""

    def some(self):
        names = ("unit.slab_guard", "unit.slab_node", "unit.mempool_pool", "debug_guard_test",
                 "debug_guard_test.tid", "tool_stats_test", "tool_exporter_test")
        return build.Tests(self.folder, {
            "root": self.folder, "commands": {}, "users": {}, "tool": {"program": "/b/slub"},
            "tests": [{"name": name, "seconds": 1, "link": {"program": "/b/" + name}}
                      for name in names]})

    def test_a_file_belongs_to_the_longest_folder_that_has_it(self):
        for path, folder in (("src/features/guard/guard.c", "src/features/guard"),
                             ("src/core/slab/node.c", "src/core/slab"),
                             ("src/core/slab/guard.c", "src/core/slab"),
                             ("src/features/mempool/pool.c", "src/features/mempool"),
                             ("tools/slub/main.c", "tools")):
            self.assertEqual(build.folder_of(path), folder)

    def test_a_feature_has_its_own_tests_by_one_backend(self):
        found = [test["name"] for test in self.some().concerning("src/features/guard/guard.c")]
        self.assertEqual(found, ["unit.slab_guard", "debug_guard_test"])
        found = [test["name"] for test in self.some().concerning("tools/slub/cmd_stats.c")]
        self.assertEqual(found, ["tool_stats_test", "tool_exporter_test"])

    def test_a_file_that_tells_backends_apart_has_the_unit_tests_of_each(self):
        tests = self.some()
        tests.tests.append({"name": "unit.slab_guard.tid", "seconds": 1})
        self.file("src/features/guard/guard.c", "int a = BACKEND_TID;\n")
        found = [test["name"] for test in tests.concerning("src/features/guard/guard.c")]
        self.assertEqual(found, ["unit.slab_guard", "unit.slab_guard.tid", "debug_guard_test"])
        found = [test["name"] for test in tests.concerning("src/features/guard/guard_say.c")]
        self.assertEqual(found, ["unit.slab_guard", "debug_guard_test"])

    def test_what_caught_most_mutants_of_a_file_is_tried_first(self):
        tests = self.some()
        for _ in range(2):
            tests.note("tools/slub/cmd_stats.c", "tool_exporter_test")
        tests.note("tools/slub/cmd_stats.c", "tool_stats_test")
        tests.note("tools/slub/cmd_top.c", "tool_stats_test")
        found = [test["name"] for test in tests.concerning("tools/slub/cmd_stats.c")]
        self.assertEqual(found, ["tool_exporter_test", "tool_stats_test"])

    def test_who_does_not_run_a_function_is_not_asked(self):
        covered = {"tools/slub/a.c": [[3, 7], [20, 30]]}
        for path, line, may in (("tools/slub/a.c", 3, True), ("tools/slub/a.c", 8, False),
                                ("tools/slub/a.c", 30, True), ("tools/slub/b.c", 3, False),
                                ("tools/slub/b.h", 3, True)):
            self.assertIs(coverage.may_run(covered, path, line), may, (path, line))
            self.assertTrue(coverage.may_run(None, path, line))

    @unittest.skipUnless(shutil.which("gcov"), "there is no gcov")
    def test_what_a_test_runs_is_measured_until_it_changes(self):
        source = self.file("tools/slub/a.c", """#include <string.h>
int one(void)
{
	return 0;
}

int main(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], "one") ? one() : 0;
}
""")
        program = os.path.join(self.folder, "slub")
        data = {"root": self.folder, "users": {}, "tests": [],
                "commands": {os.path.join(self.folder, "a.o"): {
                    "words": ["cc", "-O0", "-c", source, "-o", "a.o"], "source": source}},
                "tool": {"words": ["cc", "a.o", "-o", "slub"], "folder": self.folder,
                         "program": program}}
        for name in ("one", "none"):
            script = self.file(name + ".py", "import subprocess, sys\n"
                               f"subprocess.run([sys.argv[1], '{name}'])\n")
            data["tests"].append({"name": name, "seconds": 1, "environment": {},
                                  "folder": self.folder,
                                  "command": [sys.executable, script, program]})
        tests = build.Tests(self.folder, data)
        found = coverage.measured(tests)
        self.assertEqual([coverage.may_run(found[name], "tools/slub/a.c", 4)
                          for name in ("one", "none")], [True, False])
        self.assertTrue(coverage.may_run(found["none"], "tools/slub/a.c", 9))
        with unittest.mock.patch.object(coverage, "measured_anew") as anew:
            self.assertEqual(coverage.measured(tests), found)
            anew.assert_not_called()
            self.file("one.py", "")
            coverage.measured(tests)
            self.assertEqual([test["name"] for test in anew.call_args[0][1]], ["one"])

    def test_a_test_is_timed_once(self):
        told = self.file("told", "")
        tests = [{"name": name, "command": ["sh", "-c", f"echo {name} >> {told}; {end}"],
                  "folder": self.folder, "environment": {}}
                 for name, end in (("good", "true"), ("old", "true"), ("bad", "false"))]
        known = {"old": 3}
        with unittest.mock.patch("builtins.print"):
            found = list(build.timed(tests, known, 2))
        self.assertEqual([test["name"] for test in found], ["good", "old"])
        self.assertEqual((found[1]["seconds"], sorted(known)), (3, ["good", "old"]))
        with open(told, encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().split()), ["bad", "good"])

    def test_a_mutant_of_the_command_is_linked_into_the_command(self):
        tests = self.some()
        for path, program in (("tools/slub/main.c", "/b/slub"),
                              ("src/features/guard/guard.c", "/b/libslub.so")):
            one = trial.Trial(tests, self.folder, mutants(path=path)[0], SOURCE, SOURCE)
            test = {"name": "debug_guard_test", "link": {"program": "/b/libslub.so"}}
            self.assertEqual(one.link(test)["program"], program)
            self.assertEqual(one.link(tests.tests[0])["program"], "/b/unit.slab_guard")

    def test_who_fails_for_another_place_catches_nothing(self):
        tests = self.some()
        build_folder = os.path.join(self.folder, "b")
        self.file("b/slub", "as ever")
        self.file("b/libslub.so.1", "")
        worker = tempfile.mkdtemp(dir=self.folder)
        tests.folder = build_folder
        program = tests.tool["program"] = os.path.join(build_folder, "slub")
        for script, outcome in (("grep -q ever $0", "caught"),
                                ("test $0 = " + program, "survived"),
                                ("test -e $(dirname $0)/libslub.so.1", "survived")):
            one = trial.Trial(tests, worker, mutants(path="tools/slub/main.c")[0], SOURCE, SOURCE)
            made = one.place(program, "mutant")
            with open(made, "w", encoding="utf-8") as file:
                file.write("a mutant")
            tests.tests = [{"name": "tool_stats_test", "seconds": 1, "link": None,
                            "command": ["sh", "-c", script, program], "environment": {},
                            "folder": self.folder}]
            with unittest.mock.patch.object(one, "is_changed", return_value=True), \
                    unittest.mock.patch.object(one, "linked", return_value=made):
                self.assertEqual(one.run()["outcome"], outcome, script)

    def test_what_is_linked_with_the_library_has_the_mutant(self):
        tests = self.some()
        tests.folder = os.path.join(self.folder, "b")
        program = self.file("b/libslub.so.0.2.0", "as ever")
        one = trial.Trial(tests, self.folder,
                          mutants(path="src/features/mempool/pool.c")[0], SOURCE, SOURCE)
        made = one.place(program, "mutant")
        self.file(made, "a mutant")
        test = {"name": "mempool_test", "environment": {}, "folder": self.folder,
                "command": ["sh", "-c", "grep -q mutant $LD_LIBRARY_PATH/libslub.so.1"]}
        self.assertEqual(one.passes(test, program, made, 8), (True, "status 0"))
        self.assertFalse(one.passes(test, program, one.control(program), 8)[0])

    def test_the_command_is_linked_in_a_folder_of_its_own(self):
        self.file("tools/slub/CMakeFiles/slub_tool.dir/link.txt", "cc a.o -o ../../slub\n")
        self.file("CMakeFiles/other.dir/link.txt", "cc b.o -o tests/slub\n")
        program = os.path.join(self.folder, "slub")
        self.assertIsNone(build.link_of(program))
        made = build.link_of(program, os.path.join(self.folder, "tools/slub"))
        self.assertEqual((made["words"][1], made["program"]), ("a.o", program))

    def test_a_path_is_replaced_as_a_whole(self):
        said = self.file("said", "")
        words = ["/b/slub", "/b/slub.1", "/b/slub-x", "/b/slubs", "A=/b/slub:/b/slub"]
        test = {"command": ["sh", "-c", f"echo $* > {said}", "sh", *words], "folder": self.folder,
                "environment": {}}
        self.assertEqual(trial.passes(test, {"/b/slub": "/m+1"}, 8), (True, "status 0"))
        with open(said, encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["/m+1", *words[1:4], "A=/m+1:/m+1"])

    def test_folders_beside_the_core_need_the_whole_build(self):
        self.assertEqual(build.built(["src/core/slab/node.c"], None), build.TARGETS)
        self.assertEqual(build.built([], None), build.TARGETS)
        self.assertEqual(build.built(["src/core/slab/node.c", "src/features/mempool/pool.c"],
                                     None), ["all"])
        self.assertEqual(build.built(["src/features/mempool/pool.c"], ["slub"]), ["slub"])


def tool():
    """The program as a module."""
    loader = importlib.machinery.SourceFileLoader("mutate", os.path.join(HERE, "mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(module)
    return module


class Workers(Folder):
    def test_what_a_killed_run_left_is_in_nobodys_way(self):
        self.file("mutants/1/src/a.c", SOURCE)
        mutate = tool()
        # As when a compiler still writes there.
        with unittest.mock.patch.object(mutate.shutil, "rmtree"):
            made = mutate.Workers(self.folder).folder()
        self.assertEqual(os.listdir(made), [])
        self.assertTrue(os.path.exists(os.path.join(self.folder, "mutants", "1")))
        mutate.Workers(self.folder)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "mutants", "1")))

    def test_a_run_leaves_another_that_goes_on_alone(self):
        other = f"mutants/{os.getppid()}-a"
        gone = f"mutants/{2 ** 31 - 1}-a"
        for folder in (other, gone):
            self.file(folder + "/src/a.c", SOURCE)
        mutate = tool()
        mutate.Workers(self.folder)
        self.assertTrue(os.path.exists(os.path.join(self.folder, other)))
        self.assertFalse(os.path.exists(os.path.join(self.folder, gone)))


class Calls(unittest.TestCase):
    def shown(self, *words):
        return subprocess.run([sys.executable, "-B", os.path.join(HERE, "mutate"), *words],
                              capture_output=True, text=True, check=False)

    def test_each_file_of_the_core_is_there(self):
        done = self.shown("--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("src/core/slab/barn.c:", done.stdout)

    def test_a_folder_is_all_its_sources(self):
        whole = self.shown("--list", "src/features/watch").stdout.splitlines()
        files = {line.split(":")[0] for line in whole}
        self.assertTrue({"src/features/watch/debug.c", "src/features/watch/watch.h"} <= files)
        some = self.shown("--list", "--sample", "5", "--seed", "2", "src/features/watch")
        self.assertEqual(len(set(some.stdout.splitlines()) & set(whole)), 5)
        self.assertEqual(self.shown("--list", "src/core/slab/none").returncode, 2)

    def test_lines_are_those_of_one_file(self):
        done = self.shown("--list", "--lines", "260-300", "src/core/slab/barn.c")
        found = [int(line.split(":")[1]) for line in done.stdout.splitlines()]
        self.assertTrue(found)
        self.assertTrue(all(260 <= number <= 300 for number in found))
        for words in (["--lines", "1-2"], ["--lines", "x", "src/core/slab/barn.c"]):
            done = self.shown("--list", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--lines wants one file", done.stderr)


if __name__ == "__main__":
    unittest.main()
