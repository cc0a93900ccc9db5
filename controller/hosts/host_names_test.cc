#include "controller/hosts/host_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;

TEST(HostNamesTest, AForgottenNameIsFreeForAnybody) {
  HostNames names;
  EXPECT_EQ(names.take("e", "ada"), "e");
  names.gone("e", 0, "its connection ended");
  EXPECT_EQ(names.take("e", "bob"), "e-2") << "it is kept for ada";
  names.forget("e");
  EXPECT_EQ(names.take("e", "bob"), "e");
}

TEST(HostNamesTest, AHostThatIsThereIsNotForgotten) {
  HostNames names;
  names.take("e", "ada");
  const Error error = error_of([&] { names.forget("e"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
  EXPECT_THAT(error.message(), HasSubstr("host \"e\" is there"));
  EXPECT_THAT(error.hint(), HasSubstr("drain it and end its executor first"));
  EXPECT_NE(names.find("e"), nullptr);
}

TEST(HostNamesTest, AnUnknownHostNameIsRefusedWithTheKnownNames) {
  HostNames names;
  const auto refused = [&] { return error_of([&] { names.forget("x"); }); };
  EXPECT_THAT(refused().message(), HasSubstr("no host is known"));
  names.take("a", "ada");
  names.take("b", "ada");
  names.gone("b", 0, "its connection ended");
  EXPECT_EQ(refused().kind(), ErrorKind::kInvalid);
  EXPECT_THAT(refused().message(),
              HasSubstr("there is no host \"x\": expected one of a, b (gone)"));
  EXPECT_THAT(error_of([&] { names.set_draining("x", true); }).message(), HasSubstr("a, b (gone)"));
}

TEST(HostNamesTest, ANameDrainsUntilItIsUndrainedOrForgottenWhoeverHasIt) {
  HostNames names;
  names.take("e", "ada");
  EXPECT_FALSE(names.is_draining("e"));
  names.set_draining("e", true);
  names.set_draining("e", true);
  EXPECT_TRUE(names.is_draining("e"));
  names.gone("e", 0, "its connection ended");
  names.take("e", "ada");
  EXPECT_TRUE(names.is_draining("e"));
  names.set_draining("e", false);
  EXPECT_FALSE(names.is_draining("e"));
  names.set_draining("e", true);
  names.gone("e", 0, "its connection ended");
  names.forget("e");
  names.take("e", "ada");
  EXPECT_FALSE(names.is_draining("e"));
}

}  // namespace
}  // namespace gangway
