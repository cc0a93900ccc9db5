#include "tests/interpret/op_reference.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace gangway {
namespace {

const std::string kPath = tests::source_folder() + "/docs/ir.md";

TEST(OpReference, TheDocumentedOpsAreThoseOfTheTable) {
  std::ostringstream text;
  text << std::ifstream(kPath).rdbuf();
  std::string page = text.str();
  size_t at = page.find(kOpReferenceHeading);
  ASSERT_NE(at, std::string::npos) << kPath << " has no op reference";
  if (std::getenv("GW_UPDATE_DOCS") != nullptr) {
    std::ofstream(kPath) << page.substr(0, at) + op_reference();
    return;
  }
  EXPECT_EQ(page.substr(at), op_reference())
      << "docs/ir.md differs from the op table: run this test with GW_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace gangway
