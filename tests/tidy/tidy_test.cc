#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/places.h"
#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

TEST(Repository, KeepsTheHouseStyle) {
  const Tree tree = read_tree(tests::source_folder());
  ASSERT_GT(tree.size(), 20u) << "the tree was not found at " << tests::source_folder();
  SourceFile allow = source_file("tests/tidy_allow.txt", "");
  for (const SourceFile& file : tree) {
    if (file.path == allow.path) allow = file;
  }
  for (const Finding& finding : without_allowed(check_all(tree), allow))
    ADD_FAILURE() << finding.text();
}

}  // namespace
}  // namespace gangway::tidy
