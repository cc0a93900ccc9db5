// Properties of every graph, tried on random ones.
#include <gtest/gtest.h>

#include "ir/inspect/graphviz.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "ir/wire/wire.h"
#include "tests/support/random_graph.h"
#include "tests/support/seed.h"

namespace gangway::graph_property_test {
namespace {

using tests::Random;

constexpr int kRounds = 200;

const Mesh kMesh{{{"data", 2}, {"expert", 4}}};

// Runs the property on random functions; says which one failed.
template <class Property>
void for_random_functions(Property property) {
  Random random(tests::test_seed());
  for (int round = 0; round < kRounds; ++round) {
    Function f = tests::random_function(random, kMesh);
    SCOPED_TRACE(cat("round ", round, ":\n", print(f)));
    property(f, random);
    if (::testing::Test::HasFailure()) return;
  }
}

template <class Property>
void for_random_programs(Property property) {
  Random random(tests::test_seed());
  for (int round = 0; round < kRounds / 4; ++round) {
    Program p = tests::random_program(random);
    SCOPED_TRACE(cat("round ", round, ":\n", print(p)));
    property(p);
    if (::testing::Test::HasFailure()) return;
  }
}

std::string messages(const std::vector<Mistake>& mistakes) {
  std::string text;
  for (const Mistake& mistake : mistakes) text += mistake.message + "\n";
  return text;
}

TEST(EveryFunction, IsValidAsTheGeneratorMakesIt) {
  for_random_functions([](const Function& f, Random&) { EXPECT_EQ(messages(verify(f)), ""); });
}

TEST(EveryFunction, ComesBackFromItsTextForm) {
  for_random_functions([](const Function& f, Random&) {
    Function back = parse_function(print(f));
    EXPECT_TRUE(same_graph(back, f));
    EXPECT_EQ(content_hash(back), content_hash(f));
    EXPECT_EQ(print(back, {.locations = false}), print(f, {.locations = false}));
  });
}

TEST(EveryFunction, ComesBackFromItsWireFormWithItsLocations) {
  for_random_functions([](const Function& f, Random&) {
    Function back = function_from_wire(to_wire(f));
    EXPECT_TRUE(same_graph(back, f));
    EXPECT_EQ(content_hash(back), content_hash(f));
    EXPECT_EQ(to_wire(back), to_wire(f));  // Side tables too.
    EXPECT_EQ(print(back), print(f));
  });
}

TEST(EveryFunction, HasAnotherHashWhenItsGraphChanges) {
  for_random_functions([](const Function& f, Random& random) {
    Function changed = f;
    tests::change(changed, random);
    EXPECT_FALSE(same_graph(changed, f));
    EXPECT_NE(content_hash(changed), content_hash(f));
  });
}

TEST(EveryFunction, KeepsItsHashWhenOnlyLocationsAndOriginsChange) {
  for_random_functions([](const Function& f, Random& random) {
    Function changed = f;
    tests::change_side_tables(changed, random);
    EXPECT_TRUE(same_graph(changed, f));
    EXPECT_EQ(content_hash(changed), content_hash(f));
  });
}

TEST(EveryProgram, ComesBackFromBothForms) {
  for_random_programs([](const Program& p) {
    Program from_text = parse_program(print(p));
    EXPECT_TRUE(same_graph(from_text, p));
    Program from_wire = program_from_wire(to_wire(p));
    EXPECT_TRUE(same_graph(from_wire, p));
    EXPECT_EQ(print(from_wire), print(p));
  });
}

}  // namespace
}  // namespace gangway::graph_property_test
