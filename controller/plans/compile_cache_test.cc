#include "controller/plans/compile_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ir/build/builder.h"
#include "ir/build/ops.h"

namespace gangway {
namespace {

Function chain(int nodes) {
  Builder b("chain");
  Value x = b.parameter("x", f32({8, 8}));
  for (int i = 0; i < nodes; ++i) x = dot(x, x);
  b.result("y", x);
  return b.build();
}

// Bytes that one of them takes.
size_t bytes_of_chain() {
  CompileCache cache;
  cache.compile(chain(100), {});
  return cache.counts().bytes;
}

TEST(CompileCache, DropsTheLeastRecentlyUsedEntriesBeyondItsBytes) {
  const size_t one = bytes_of_chain();
  EXPECT_GT(one, 100 * sizeof(Node));
  CompileCache cache(3 * one + one / 2);
  for (int nodes : {100, 101, 102}) cache.compile(chain(nodes), {});
  EXPECT_EQ(cache.counts().entries, 3u);
  cache.compile(chain(100), {});
  cache.compile(chain(103), {});  // 101 goes.
  EXPECT_EQ(cache.counts().entries, 3u);
  EXPECT_LE(cache.counts().bytes, 3 * one + one / 2);
  EXPECT_EQ(cache.counts().hits, 1u);
  for (int nodes : {100, 102, 103}) cache.compile(chain(nodes), {});
  EXPECT_EQ(cache.counts().hits, 4u);
  cache.compile(chain(101), {});
  EXPECT_EQ(cache.counts().hits, 4u) << "it was dropped";
}

TEST(CompileCache, ADroppedEntryLivesAsLongAsSomebodyHoldsIt) {
  CompileCache cache(1);  // Holds the last one alone, whatever it takes.
  const std::shared_ptr<const Compiled> kept = cache.compile(chain(10), {});
  const std::weak_ptr<const Compiled> dropped = cache.compile(chain(11), {});
  EXPECT_FALSE(dropped.expired());
  cache.compile(chain(12), {});
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(kept->local.function->nodes.size(), 10u);
  EXPECT_EQ(cache.counts().entries, 1u);
}

TEST(CompileCache, AFunctionFromOtherLinesHitsTheCacheAndKeepsItsOwnLines) {
  CompileCache cache;
  const auto lines_of = [&](const char* file) {
    Function function = chain(3);
    for (LocEntry& loc : function.locs) loc.file = file;
    const Function& compiled = *cache.compile(function, {})->local.function;
    std::set<std::string> lines;
    for (NodeId node = 0; node < compiled.nodes.size(); ++node)
      lines.insert(line_of(compiled, node).substr(0, std::string(file).size()));
    return lines;
  };
  EXPECT_EQ(lines_of("anns.cc"), (std::set<std::string>{"anns.cc"}));
  EXPECT_EQ(lines_of("bobs.cc"), (std::set<std::string>{"bobs.cc"}));
  EXPECT_EQ(lines_of("anns.cc"), (std::set<std::string>{"anns.cc"}));
  EXPECT_EQ(cache.counts().hits, 1u);
}

TEST(CompileCache, ACompileThatEndsWithAnErrorLeavesNoEntry) {
  CompileCache cache;
  const PassWatch stop = [](std::string_view pass) {
    if (pass == "partition") throw Error(ErrorKind::kCancelled, "enough");
  };
  EXPECT_THROW(cache.compile(chain(10), {}, stop), Error);
  EXPECT_EQ(cache.counts().entries, 0u);
}

}  // namespace
}  // namespace gangway
