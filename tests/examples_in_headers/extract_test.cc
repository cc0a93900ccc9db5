#include "tests/examples_in_headers/extract.h"

#include <gmock/gmock.h>

#include "runtime/base/error.h"
#include "tests/support/places.h"

namespace gangway::examples {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ExamplesInHeaders, AreTheIndentedLinesBelowTheirMark) {
  const std::vector<Example> found = examples_in("a.h",
                                                 "// What it is.\n"
                                                 "//\n"
                                                 "// Example:\n"
                                                 "//   for (int i = 0; i < 3; ++i) {\n"
                                                 "//     use(i);\n"
                                                 "//   }\n"
                                                 "// Threads: any.\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].line, 4);
  EXPECT_THAT(found[0].code, ElementsAre("for (int i = 0; i < 3; ++i) {", "  use(i);", "}"));
  EXPECT_FALSE(found[0].defines_function());
}

TEST(ExamplesInHeaders, MayStandInAClassAndSayWhatTheyShow) {
  const std::vector<Example> found =
      examples_in("a.h", "class A {\n  // Example (a kernel):\n  //   int halve(int x) {\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].line, 3);
  EXPECT_TRUE(found[0].defines_function());
}

TEST(ExamplesInHeaders, TablesAndDiagramsAreNoExamples) {
  constexpr std::string_view kTable = "// The passes:\n//\n//   verify    checks\n";
  EXPECT_THAT(examples_in("a.h", kTable), IsEmpty());
  EXPECT_THAT(unmarked_code(kTable), IsEmpty());
}

TEST(ExamplesInHeaders, CodeWithoutItsMarkIsFound) {
  EXPECT_THAT(unmarked_code("// Use:\n//   A a;\n//   a.run();\n"), ElementsAre(2, 3));
  EXPECT_THAT(unmarked_code("// Use:\n//   a.run();  // Once.\n"), ElementsAre(2));
  EXPECT_THAT(unmarked_code("// Example:\n//   A a;\n"), IsEmpty());
  EXPECT_THAT(unmarked_code("//  - an item whose\n//    text goes on;\n"), IsEmpty());
}

TEST(ExamplesInHeaders, CompilersReportAnErrorAtTheLineOfTheHeader) {
  const std::string source = to_source(examples_in("a/b.h", "// Example:\n//   A a;\n"), {"a/b.h"});
  EXPECT_THAT(source, HasSubstr("#include \"a/b.h\"\n"));
  EXPECT_THAT(source, HasSubstr("void example_0() {\n#line 2 \"a/b.h\"\nA a;\n}\n"));
}

// The target gw_examples_in_headers, which this test depends on, compiles the examples themselves.
// This test shows that it has all of them.
TEST(ExamplesInHeaders, EveryPublicHeaderIsReadAndItsExamplesAreFound) {
  const std::filesystem::path root = tests::source_folder();
  const std::vector<std::string> headers = public_headers(root);
  for (const char* path : {"client/client.h", "ir/types/sharding.h", "programs/train/train.h"})
    EXPECT_THAT(headers, Contains(path));
  std::vector<std::string> with_example;
  for (const std::string& path : headers) {
    for (const Example& example : examples_in(path, read_file(root / path)))
      with_example.push_back(example.path);
  }
  EXPECT_GE(with_example.size(), 13u);
  for (const char* path : {"client/client.h", "ir/build/program_builder.h", "ir/build/autodiff.h",
                           "ir/build/user_kernel.h", "checkpoint/checkpoint_dir.h"})
    EXPECT_THAT(with_example, Contains(path));
}

TEST(ExamplesInHeaders, NoHeaderShowsCodeWithoutTheMark) {
  const std::filesystem::path root = tests::source_folder();
  for (const std::string& path : all_headers(root)) {
    for (const int line : unmarked_code(read_file(root / path)))
      ADD_FAILURE() << path << ":" << line
                    << ": code in a comment: put a line \"Example:\" above the block";
  }
}

}  // namespace
}  // namespace gangway::examples
