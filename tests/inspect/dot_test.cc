// Graphviz reads DOT and draws pictures of programs that people can look at, in seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <regex>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/inspect/graphviz.h"
#include "runtime/base/cat.h"
#include "tests/inspect/golden.h"
#include "tests/inspect/reader.h"
#include "tests/inspect/sample_programs.h"
#include "tests/support/places.h"

namespace gangway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Processor time of this process's children that have ended.
double children_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Picture {
  std::string svg;
  double seconds = 0;
  double width = 0, height = 0;  // Points.
};

Picture draw(const std::string& dot) {
  const TempDir folder;
  const double before = children_seconds();
  const Read read = run_reader(
      {tests::cmake_variable("GANGWAY_TEST_DOT"), "-Tsvg", file_with(folder, "graph.dot", dot)});
  Picture picture{.svg = read.said, .seconds = children_seconds() - before};
  EXPECT_TRUE(read.ok) << read.said;
  // Warnings would come first.
  EXPECT_THAT(read.said, ::testing::StartsWith("<?xml"));
  std::smatch size;
  if (std::regex_search(read.said, size, std::regex("<svg width=\"(\\d+)pt\" height=\"(\\d+)pt\"")))
    picture.width = std::stod(size[1]), picture.height = std::stod(size[2]);
  return picture;
}

size_t boxes_in(const std::string& dot) {
  const std::regex box("[a-z0-9_]+ \\[label=");
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(dot.begin(), dot.end(), box), std::sregex_iterator()));
}

TEST(DotTest, ASmallProgramIsDrawnAsTheGoldenFileSays) {
  expect_golden("sample.dot", to_dot(golden_program()));
}

TEST(DotTest, TheQuickstartIsDrawnWithinTwoSecondsAndIsNotTooWideToOpen) {
  const std::string dot = to_dot(quickstart_program());
  EXPECT_THAT(dot, AllOf(HasSubstr("params.*\\non main\\n10 states"), Not(HasSubstr("init")),
                         HasSubstr("label=\"body: scan of 3\\nlayers\"")));
  const Picture picture = draw(dot);
  EXPECT_LT(picture.seconds, 2.0);
  EXPECT_GT(picture.width, 100);
  EXPECT_LT(picture.width, 10'000);
  EXPECT_LT(picture.height, 10'000);
}

// A function of `layers` scopes of `nodes` nodes, or of nodes alone if `layers` is 0.
Function deep(int layers, int nodes) {
  Builder b("deep", Mesh{});
  Value x = b.parameter("x", f32({8}));
  for (int layer = 0; layer < layers; ++layer) {
    const Builder::Scope scope(b, cat("layers.", layer));
    for (int node = 0; node < nodes; ++node) {
      const Builder::Scope inner(b, node % 2 == 0 ? "attn" : "ffn");
      x = tanh(x);
    }
  }
  for (int node = 0; layers == 0 && node < nodes; ++node) x = tanh(x);
  b.result("y", x);
  return b.build();
}

TEST(DotTest, FoldsScopesAndThenAllWhereThereAreMoreNodesThanAPictureShows) {
  EXPECT_EQ(boxes_in(to_dot(deep(0, 75))), 77u);
  EXPECT_EQ(boxes_in(to_dot(deep(5, 15))), 77u);
  const std::string halves = to_dot(deep(30, 50));
  EXPECT_EQ(boxes_in(halves), 62u);
  EXPECT_THAT(halves, HasSubstr("label=\"attn\\n25 nodes\\n1.60 kFLOP, 1.6 KiB\""));
  const std::string layers = to_dot(deep(60, 50));
  EXPECT_EQ(boxes_in(layers), 62u);
  EXPECT_THAT(layers, HasSubstr("label=\"layers.7\\n50 nodes"));
  EXPECT_LT(draw(layers).seconds, 2.0);
  const std::string all = to_dot(deep(400, 50));
  EXPECT_EQ(boxes_in(all), 3u);
  EXPECT_THAT(all, HasSubstr("label=\"deep\\n20000 nodes"));
  EXPECT_EQ(boxes_in(to_dot(deep(0, 5000))), 3u);
}

TEST(DotTest, HostileNamesAreDrawnAsText) {
  const std::string dot = to_dot(hostile_program());
  const Picture picture = draw(dot);
  EXPECT_THAT(picture.svg, AllOf(HasSubstr("&lt;/script&gt;"), Not(HasSubstr("<script"))));
  EXPECT_LT(picture.width, 10'000);
}

}  // namespace
}  // namespace gangway
