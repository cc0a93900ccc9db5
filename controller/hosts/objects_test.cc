#include "controller/hosts/objects.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(ObjectTableTest, AClientThatHoldsTooManyArraysIsRefusedMoreUntilItLetsSomeGo) {
  HostTable hosts;
  ObjectTable objects(hosts, 2);
  const auto layout = std::make_shared<const DeviceLayout>();
  const SessionId one(1), other(2);
  const auto add = [&](SessionId owner, uint64_t number) {
    const ArrayId id((owner.value << 40) + number);
    try {
      objects.add(id, {.owner = owner, .layout = layout});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOverloaded) << error.what();
      return false;
    }
    return true;
  };
  EXPECT_TRUE(add(one, 1) && add(one, 2));
  EXPECT_FALSE(add(one, 3));
  EXPECT_TRUE(add(other, 1)) << "that is another client's";
  objects.client_drops(ArrayId((one.value << 40) + 1), one);
  EXPECT_TRUE(add(one, 3));
  EXPECT_FALSE(add(one, 4));
}

TEST(ObjectTableTest, AnArrayThatOnlyARunHeldStaysIfItsClientHoldsItAgain) {
  HostTable hosts;
  ObjectTable objects(hosts);
  const SessionId client(1);
  const ArrayId array((client.value << 40) + 1);
  objects.add(array, {.owner = client, .layout = std::make_shared<const DeviceLayout>()});
  EXPECT_FALSE(objects.client_keeps(array)) << "it holds it already";
  objects.keep(array);
  objects.client_drops(array, client);
  EXPECT_TRUE(objects.client_keeps(array));
  objects.drop(array);
  EXPECT_TRUE(objects.is_there(array, client));
  objects.client_drops(array, client);
  EXPECT_FALSE(objects.is_there(array, client));
}

}  // namespace
}  // namespace gangway
