#include "executor/sources/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class DataSourceTest : public testing::Test {
 protected:
  DataSourceTest() { std::ofstream(path_) << std::string(4000, 'x'); }

  std::string refusal_of(const Attrs& attrs, const Type& type) {
    try {
      make_source(attrs, type);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
      return error.what();
    }
    return "none";
  }

  TempDir folder_;
  const std::string path_ = (folder_.path() / "text").string();
  const Attrs text_{{"kind", std::string("text")}, {"path", path_}};
};

TEST_F(DataSourceTest, AnAttributeOfAnotherKindOrNameIsRefused) {
  const Type type = i32({4, 16});
  EXPECT_EQ(refusal_of(text_, type), "none");
  for (const auto& [name, value] : std::vector<std::pair<std::string, AttrValue>>{
           {"path", int64_t{1}}, {"heldout", int64_t{0}}, {"seed", 1.5}, {"shuffle", true}}) {
    Attrs attrs = text_;
    attrs.set(name, value);
    EXPECT_THAT(refusal_of(attrs, type), HasSubstr(cat("\"", name, "\""))) << name;
  }
}

TEST_F(DataSourceTest, ABatchTooLargeForItsReaderIsRefused) {
  EXPECT_THAT(refusal_of(text_, i32({(int64_t{1} << 32) + 4, 16})), HasSubstr("text"));
  EXPECT_THAT(refusal_of(text_, i32({4, (int64_t{1} << 32) + 16})), HasSubstr("text"));
}

TEST_F(DataSourceTest, ACounterWrapsAroundWhereverAUserPutsItsPosition) {
  const auto counter = make_source({{"kind", std::string("counter")}}, i32({2, 3}));
  std::vector<int32_t> row(3);
  for (const uint64_t position : {uint64_t{1}, uint64_t{1} << 62, ~uint64_t{0}}) {
    counter->fill(position, 1, 1, reinterpret_cast<std::byte*>(row.data()));
    for (uint64_t i = 0; i < 3; ++i)
      EXPECT_EQ(row[i], static_cast<int32_t>(static_cast<uint32_t>(position * 6 + 3 + i)));
  }
}

}  // namespace
}  // namespace gangway
