#include "tests/tidy/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/tidy/rooms.h"

namespace gangway::tidy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// "rule:line" of each finding in a tree of these files.
std::vector<std::string> found(const Tree& tree) {
  std::vector<std::string> rules;
  for (const Finding& finding : check_all(tree))
    rules.push_back(finding.rule + ":" + std::to_string(finding.line));
  return rules;
}

std::vector<std::string> found(const std::string& path, const std::string& text) {
  return found(Tree{source_file(path, text)});
}

std::string function_of(int lines, const std::string& head) {
  std::string text = head + " {\n";
  for (int i = 0; i < lines - 2; ++i) text += "  call(\"}\");\n";
  return text + "}\n";
}

TEST(TidyBudgets, AFunctionMayHaveSeventyLines) {
  EXPECT_THAT(found("ir/graph/a.cc", function_of(70, "int f(int a)")), IsEmpty());
  EXPECT_THAT(found("ir/graph/a.cc", function_of(71, "int f(int a)")),
              ElementsAre("function-size:1"));
  EXPECT_THAT(
      found("ir/graph/a.cc", "namespace x {\n" + function_of(71, "A::A(int a) : b(a)") + "}\n"),
      ElementsAre("function-size:2"));
}

TEST(TidyBudgets, ScopesAndTablesAreNotFunctions) {
  EXPECT_THAT(found("ir/graph/a.cc", function_of(71, "struct S : Base")), IsEmpty());
  EXPECT_THAT(found("ir/graph/a.cc", function_of(71, "const Row kRows[] =")), IsEmpty());
}

TEST(TidyComments, ASentenceBeginsWithItsSubjectHoweverItsLinesAreWrapped) {
  const auto with = [](const char* comment) {
    return found("ir/graph/a.cc", std::string(comment) + "\nint a;\n");
  };
  EXPECT_THAT(with("// Bytes of the slice. Who asks waits."), ElementsAre("plain-comment:0"));
  EXPECT_THAT(with("// Bytes of the slice.\n// Who asks waits."), ElementsAre("plain-comment:0"));
  EXPECT_THAT(with("int b = 1;  // Of the slice."), ElementsAre("plain-comment:0"));
  EXPECT_THAT(with("// A list:\n// - Those that wait."), ElementsAre("plain-comment:0"));
  EXPECT_THAT(with("// The room is\n// As large as it was."), IsEmpty());
  EXPECT_THAT(with("// Offsets; Sofas. Whoever asks waits, e.g. by name."), IsEmpty());
  EXPECT_THAT(with("const char* b = \" // Of\";"), IsEmpty());
  EXPECT_THAT(found("protocol/a.capnp", "# Of the slice.\n"), ElementsAre("plain-comment:0"));
}

TEST(TidyComments, ARoomHasExactlyTheRiddlesOfItsBudget) {
  const SourceFile source = source_file("ir/graph/a.cc", "// Of one.\n\n// Of two.\n");
  for (const int budget : {1, 2, 3}) {
    const SourceFile budgets =
        source_file("tests/tidy_comments.txt", "ir/graph " + std::to_string(budget) + "\n");
    const size_t findings = budget == 2 ? 0 : 1;
    EXPECT_EQ(found(Tree{source, budgets}).size(), findings) << budget;
  }
}

TEST(TidyTestNames, ANameBeginsWithItsSubjectWhereverItStands) {
  const std::string riddle = "plain-test-name:1";
  const auto with = [](const std::string& code) {
    return found("ir/graph/a_test.cc", code + "\n");
  };
  for (const char* macro : {"TEST", "TEST_F", "TEST_P", "TYPED_TEST", "TYPED_TEST_P"}) {
    const std::string begin = std::string(macro) + "(ATest, ";
    EXPECT_THAT(with(begin + "WhatIsLeftIsDropped) {}"), ElementsAre(riddle)) << macro;
    EXPECT_THAT(with(begin + "TheRestIsDropped) {}"), IsEmpty()) << macro;
  }
  for (const char* name : {"OfOne", "WhoWaits", "WhoseTurn", "ThoseThatWait", "ByName", "AsMany",
                           "SoManyAndNoMore", "Of2Rows", "So"}) {
    EXPECT_THAT(with("TEST(ATest, " + std::string(name) + ") {}"), ElementsAre(riddle)) << name;
    EXPECT_THAT(with("TEST(ATest,\n     " + std::string(name) + ") {}"), ElementsAre(riddle))
        << name;
  }
  for (const char* name : {"OffersEnd", "WhoeverWaitsAges", "BytesAddUp", "AskingEnds",
                           "SoftmaxIsRight", "AWaitEnds", "ThisIsWhatItIs"})
    EXPECT_THAT(with("TEST(ATest, " + std::string(name) + ") {}"), IsEmpty()) << name;
  EXPECT_THAT(with("TEST(WhoWaits, ThreadsTakeTurns) {}"), IsEmpty()) << "the suite's name";
  EXPECT_THAT(with("const char* a = \"TEST(ATest, OfOne) {}\";"), IsEmpty());
  EXPECT_THAT(with("// TEST(ATest, OfOne) {}"), IsEmpty());
  EXPECT_THAT(with("MY_TEST(ATest, OfOne);"), IsEmpty());
}

TEST(TidyBudgets, FilesAndFoldersHaveASize) {
  EXPECT_THAT(found("ir/graph/a.cc", std::string(801, '\n')), ElementsAre("source-size:0"));
  EXPECT_THAT(found("ir/graph/a.h", "// A.\n#pragma once\n" + std::string(399, '\n')),
              ElementsAre("header-size:0"));
  Tree tree;
  for (char c = 'a'; c < 'a' + 25; ++c) {
    tree.push_back(source_file(std::string("ir/graph/") + c + ".cc", ""));
    tree.push_back(source_file(std::string("ir/graph/") + c + "_test.cc", ""));
  }
  EXPECT_THAT(found(tree), IsEmpty());
  tree.push_back(source_file("ir/graph/one_more.cc", ""));
  EXPECT_THAT(found(tree), ElementsAre("folder-size:0"));
}

TEST(TidyText, LinesAreNarrowAndClean) {
  EXPECT_THAT(found("ir/graph/a.cc", std::string(100, 'x') + "\n"), IsEmpty());
  EXPECT_THAT(found("ir/graph/a.cc", std::string(101, 'x') + "\n"), ElementsAre("line-length:1"));
  EXPECT_THAT(found("ir/graph/a.cc", "a\n\tb\nc \n"), ElementsAre("tab:2", "trailing-space:3"));
  EXPECT_THAT(found("ir/graph/a.cc", "a"), ElementsAre("final-newline:1"));
}

TEST(TidyText, UnfinishedWorkIsNamedByItsKind) {
  EXPECT_THAT(found("ir/graph/a.cc",
                    "// FIX"
                    "ME: this\n"),
              ElementsAre("banned-word:1"));
  EXPECT_THAT(found("ir/graph/a.cc",
                    "// TO"
                    "DO: this\n"),
              ElementsAre("todo:1"));
  EXPECT_THAT(found("ir/graph/a.cc",
                    "// TO"
                    "DO(perf): this\n"),
              IsEmpty());
}

TEST(TidyText, NoMachineAndNoServerIsNamed) {
  EXPECT_THAT(found("check",
                    "cd /ho"
                    "me/me/x\n"),
              ElementsAre("machine-path:1"));
  EXPECT_THAT(found("check",
                    "cd executor/wo"
                    "rk/x\n"),
              IsEmpty());
  EXPECT_THAT(found("docs/a.md",
                    "see https:"
                    "//mirror.somewhere/x\n"),
              ElementsAre("url:1"));
}

TEST(TidyCalls, TimeThreadsAndChanceComeFromRuntime) {
  const std::string text = "std::thread t;\nsleep_for(x);\nint a = rand();\n";
  EXPECT_THAT(found("ir/graph/a.cc", text),
              ElementsAre("banned-call:1", "banned-call:2", "banned-call:3"));
  EXPECT_THAT(found("runtime/a.cc", text), IsEmpty());
  EXPECT_THAT(found("ir/graph/a.cc", "// sleep_for is banned\nf(\"sleep_for\");\n"), IsEmpty());
}

TEST(TidyCalls, OneFunctionReadsTheEnvironmentOfTheProduct) {
  const std::string text = "const char* a = std::getenv(name);\n";
  EXPECT_THAT(found("runtime/os/a.cc", text), ElementsAre("banned-call:1"));
  EXPECT_THAT(found("runtime/base/environment.cc", text), IsEmpty());
  EXPECT_THAT(found("tests/support/a.cc", text), IsEmpty());
}

TEST(TidyCalls, OnlyBackendsCompileConditionally) {
  EXPECT_THAT(found("ir/graph/a.cc", "#ifdef X\n#endif\n"), ElementsAre("ifdef:1"));
  EXPECT_THAT(found("executor/devices/cuda/a.cc", "#ifdef X\n#endif\n"), IsEmpty());
}

TEST(TidyPaths, FilesAreLookedAtWithErrorCodes) {
  EXPECT_THAT(found("ir/graph/a.cc",
                    "bool a = fs::exists(path);\n"
                    "auto b = std::filesystem::absolute(\n    f(path, 2));\n"
                    "for (const auto& entry : fs::directory_iterator(folder, error)) f(entry);\n"
                    "if (entries->is_regular_file()) return;\n"
                    "fs::directory_iterator entries(folder);\n"),
              UnorderedElementsAre("path-error:1", "path-error:2", "path-error:4", "path-error:5",
                                   "path-error:6"));
  EXPECT_THAT(found("ir/graph/a.cc",
                    "bool a = fs::exists(path, error) && fs::is_directory(status);\n"
                    "fs::directory_iterator entries(folder, error), end;\n"
                    "end = fs::directory_iterator();\nfs::path b = my::exists(path);\n"),
              IsEmpty());
  EXPECT_THAT(found("ir/graph/a_test.cc", "bool a = fs::exists(path);\n"), IsEmpty());
}

TEST(TidyHeaders, AHeaderSaysWhatItIs) {
  EXPECT_THAT(found("ir/graph/a.h", "#include <map>\n"),
              ElementsAre("header-comment:1", "pragma-once:1"));
  EXPECT_THAT(found("protocol/a.capnp", "@0xabc;\n"), ElementsAre("header-comment:1"));
}

TEST(TidyHeaders, ASourceIncludesItsOwnHeaderFirst) {
  const SourceFile header = source_file("ir/graph/a.h", "// A.\n#pragma once\n");
  EXPECT_THAT(
      found({header, source_file("ir/graph/a.cc", "#include <map>\n#include \"ir/graph/a.h\"\n")}),
      ElementsAre("own-header-first:1"));
  EXPECT_THAT(found({header, source_file("ir/graph/a.cc", "#include \"ir/graph/a.h\"\n")}),
              IsEmpty());
}

TEST(TidyRooms, DependenciesPointDown) {
  EXPECT_THAT(found("ir/graph/a.cc", "#include \"runtime/base/error.h\"\n"), IsEmpty());
  EXPECT_THAT(found("ir/graph/a.cc", "#include \"runtime/fibers/future.h\"\n"),
              ElementsAre("include-direction:1"));
  EXPECT_THAT(found("runtime/a.cc", "#include \"ir/types/type.h\"\n"),
              ElementsAre("include-direction:1"));
  EXPECT_THAT(found("controller/service/a.cc", "#include \"executor/host/host.h\"\n"),
              ElementsAre("include-direction:1"));
  EXPECT_THAT(found("executor/kernels/a.cc", "#include \"executor/host/host.h\"\n"),
              ElementsAre("include-direction:1"));
  EXPECT_THAT(found("programs/a.cc", "#include \"runtime/fibers/reactor.h\"\n"),
              ElementsAre("include-direction:1"));
  EXPECT_THAT(found("ir/graph/a.cc", "#include \"type.h\"\n"), ElementsAre("include-direction:1"));
  EXPECT_THAT(found("ir/graph/a_test.cc", "#include \"tests/support/seed.h\"\n"), IsEmpty());
}

TEST(TidyRooms, WallsStandInsideTheExecutorAndTheGraphToo) {
  EXPECT_THAT(
      found("executor/store/a.h", "// A.\n#pragma once\n#include \"executor/host/host.h\"\n"),
      ElementsAre("include-direction:3"));
  EXPECT_THAT(found("executor/host/a.cc", "#include \"executor/store/device_memory.h\"\n"),
              IsEmpty());
  EXPECT_THAT(found("ir/transforms/fusion/a.cc", "#include \"ir/transforms/pipeline.h\"\n"),
              ElementsAre("include-direction:1"));
  EXPECT_THAT(found("executor/kernels/simd/a.inl", "// A.\n#include \"executor/work/event.h\"\n"),
              ElementsAre("include-direction:2"));
}

TEST(TidyRooms, ATestMayUseItsWholeTopLevelFolderAndThoseBelow) {
  EXPECT_THAT(found("ir/verify/a_test.cc", "#include \"ir/build/builder.h\"\n"), IsEmpty());
  EXPECT_THAT(found("executor/store/a_test.cc", "#include \"executor/host/host.h\"\n"), IsEmpty());
  EXPECT_THAT(found("ir/verify/a_test.cc", "#include \"executor/host/host.h\"\n"),
              ElementsAre("include-direction:1"));
}

TEST(TidyRooms, ProgramsIncludeWhatTheirUsersMayInclude) {
  const SourceFile all =
      source_file("gangway.h", "// A.\n#pragma once\n#include \"ir/build/ops.h\"\n");
  const SourceFile ops =
      source_file("ir/build/ops.h", "// A.\n#pragma once\n#include \"ir/build/value.h\"\n");
  const SourceFile value = source_file("ir/build/value.h", "// A.\n#pragma once\n");
  EXPECT_THAT(
      found({all, ops, value, source_file("programs/a.cc", "#include \"ir/build/value.h\"\n")}),
      IsEmpty());
  EXPECT_THAT(
      found({all, ops, value, source_file("programs/a.cc", "#include \"client/session.h\"\n")}),
      ElementsAre("public-headers:1"));
}

TEST(TidyRooms, NoRoomIncludesOneThatStandsAboveIt) {
  std::set<std::string_view> below;
  for (const Room& room : rooms()) {
    for (const std::string_view other : room.may_include)
      EXPECT_TRUE(other == "*" || below.contains(other)) << room.folder << " includes " << other;
    EXPECT_TRUE(below.insert(room.folder).second) << room.folder << " stands there twice";
  }
}

TEST(TidyRooms, EveryFileLiesInARoom) {
  EXPECT_THAT(found("executor/a.cc", ""), ElementsAre("outside-rooms:0"));
  EXPECT_THAT(found("executor/README.md", ""), IsEmpty());
  EXPECT_THAT(found("helpers/a.cc", ""), ElementsAre("outside-rooms:0"));
}

TEST(TidyLinks, LinksLeadSomewhere) {
  const SourceFile target = source_file("docs/b.md", "");
  EXPECT_THAT(found({target, source_file("docs/a.md", "[b](b.md#part) [d](../docs)\n")}),
              IsEmpty());
  EXPECT_THAT(found({target, source_file("docs/a.md", "[c](c.md)\n")}), ElementsAre("docs-link:1"));
}

TEST(TidyPlaces, TheTableOfPlacesNamesExistingPlaces) {
  const SourceFile place = source_file("ir/graph/a.h", "// A.\n#pragma once\n");
  const std::string heading = "## Where things go\n| to add | place |\n";
  EXPECT_THAT(found({place, source_file("docs/architecture.md",
                                        heading + "| a | `ir/graph/`, `ir/graph/a.h` |\n")}),
              IsEmpty());
  EXPECT_THAT(found({place, source_file("docs/architecture.md",
                                        "`b.h`\n" + heading + "| a | `ir/graph/b.h` |\n")}),
              ElementsAre("docs-place:4"));
}

TEST(TidyAllow, ALineExcusesARuleInAFileAndMustBeNeeded) {
  const Findings findings = check_all({source_file("ir/graph/a.cc", "a \n")});
  EXPECT_THAT(without_allowed(findings, source_file("allow", "trailing-space ir/graph/a.cc why\n")),
              IsEmpty());
  EXPECT_EQ(
      without_allowed(findings, source_file("allow", "trailing-space ir/graph/a.cc\n")).size(), 1u);
  EXPECT_EQ(without_allowed({}, source_file("allow", "tab ir/graph/a.cc why\n")).size(), 1u);
}

}  // namespace
}  // namespace gangway::tidy
