#include "runtime/base/ids.h"

#include <gtest/gtest.h>

#include <map>
#include <type_traits>
#include <unordered_set>

#include "runtime/base/cat.h"

namespace gangway {
namespace {

using RunId = Id<struct RunTag>;
using HostId = Id<struct HostTag, uint32_t>;

TEST(Id, OrdersHashesAndPrintsLikeItsNumber) {
  EXPECT_LT(RunId(1), RunId(2));
  EXPECT_EQ(RunId(3).next(), RunId(4));
  EXPECT_EQ(cat(HostId(7)), "7");
  std::unordered_set<RunId> seen{RunId(1), RunId(1), RunId(2)};
  EXPECT_EQ(seen.size(), 2u);
}

TEST(Id, AnIdOfOneKindIsNotAnIdOfAnother) {
  EXPECT_FALSE((std::is_convertible_v<RunId, HostId>));
  EXPECT_FALSE((std::is_convertible_v<uint64_t, RunId>));
  EXPECT_FALSE((std::is_constructible_v<RunId, HostId>));
}

}  // namespace
}  // namespace gangway
