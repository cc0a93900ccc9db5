#include "controller/slices/owner_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// "ada" may have 4 devices, 2 programs and 2,000 bytes; "bob" has no quota.
class OwnerQuotasTest : public ::testing::Test {
 protected:
  OwnerQuotasTest() {
    executor_.need_bytes = 100;
    executor_.devices = 8;
    controller_.add_host({.name = "host-0", .devices = 8, .memory_bytes = 10'000}, executor_);
  }
  SessionId client(const std::string& name, const std::string& owner) {
    return controller_.programs().add(name, owner, client_);
  }
  Error refused(SessionId session, const SliceShape& shape) {
    try {
      controller_.allocate(session, shape);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "allocated";
    return Error(ErrorKind::kBug, "");
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_;
  FakeClient client_;
  Controller controller_{
      *reactor_,
      {.quotas = {.owners = {{"ada", {.devices = 4, .memory_bytes = 2000, .programs = 2}}}}}};
};

TEST_F(OwnerQuotasTest, DevicesBeyondAnOwnersQuotaAreRefusedSayingWhoHoldsWhat) {
  const SessionId first = client("train", "ada"), second = client("evaluate", "ada");
  const SliceId three = controller_.allocate(first, {3}).id;
  const Error error = refused(second, {2});
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.message(),
              HasSubstr("the quota of owner \"ada\" is 4 devices: wanted 2 more, beside what it "
                        "holds: client 1 of ada holds 3 devices"));
  EXPECT_THAT(error.hint(), HasSubstr("let something go"));
  controller_.allocate(second, {1});
  controller_.allocate(client("any", "bob"), {8});
  controller_.tables().slices.release(three);
  controller_.allocate(second, {3});
}

TEST_F(OwnerQuotasTest, RequestsLargerThanTheQuotaAreRefusedEvenIfTheyMayWait) {
  const SessionId session = client("train", "ada");
  SliceShape shape(5);
  shape.wait_ms = 60'000;
  EXPECT_THAT(refused(session, shape).message(), HasSubstr("wanted 5 more"));
}

TEST_F(OwnerQuotasTest, ARequestThatWaitsForItsOwnersQuotaKeepsNoDevicesFromOthers) {
  const SessionId first = client("train", "ada"), second = client("evaluate", "ada");
  const SliceId four = controller_.allocate(first, {4}).id;
  bool got = false;
  Fiber waits = reactor_->spawn("wait", [&] {
    SliceShape shape(4);
    shape.wait_ms = 60'000;
    controller_.allocate(second, shape);
    got = true;
  });
  reactor_->run_ready();
  SliceShape alone(2);
  alone.exclusive = true;
  controller_.tables().slices.release(controller_.allocate(client("any", "bob"), alone).id);
  reactor_->run_ready();
  EXPECT_FALSE(got);
  controller_.tables().slices.release(four);
  reactor_->run_ready();
  EXPECT_TRUE(got);
  reactor_->run([&] { waits.join(); });
}

TEST_F(OwnerQuotasTest, ProgramsBeyondAnOwnersQuotaAreRefused) {
  controller_.allocate(client("a", "ada"), {1});
  controller_.allocate(client("b", "ada"), {1});
  const SessionId third = client("c", "ada");  // A session without slices is no program.
  EXPECT_THAT(refused(third, {1}).message(),
              HasSubstr("is 2 programs with slices: wanted one more, beside what it holds: "
                        "client 1 of ada holds 1 device, client 2 of ada holds 1 device"));
}

TEST_F(OwnerQuotasTest, MemoryBeyondAnOwnersQuotaIsRefusedSayingWhoHoldsWhat) {
  const auto compile = [&](SessionId session, int64_t bytes) {
    executor_.need_bytes = bytes;
    executor_.devices = 2;
    return reactor_->run([&] {
      const SliceId slice = controller_.allocate(session, {2}).id;
      return controller_.compile(session, doubled(Mesh{{{"data", 2}}}), {slice}, {1}).id;
    });
  };
  const SessionId first = client("train", "ada"), second = client("evaluate", "ada");
  const PlanId held = compile(first, 600);
  try {
    compile(second, 500);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(error.message(), HasSubstr("the quota of owner \"ada\" is 2"));
    EXPECT_THAT(error.message(), HasSubstr("client 1 of ada holds 1.2 KiB"));
  }
  compile(client("any", "bob"), 5000);
  controller_.path().release_plan(held);
  controller_.session_closed(first);
  controller_.session_closed(second);
  compile(client("again", "ada"), 900);
}

TEST_F(OwnerQuotasTest, NewQuotasHoldForWhatIsAskedFromThenOn) {
  const SessionId first = client("train", "ada"), second = client("evaluate", "ada");
  controller_.allocate(first, {4});
  controller_.tables().quotas.set({.owners = {{"ada", {.devices = 2}}}});
  EXPECT_THAT(refused(second, {1}).message(), HasSubstr("is 2 devices: wanted 1 more"));
  controller_.tables().quotas.set({});
  controller_.allocate(second, {8});
}

}  // namespace
}  // namespace gangway
