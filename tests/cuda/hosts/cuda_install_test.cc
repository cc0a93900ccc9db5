// Plans are compiled on a thread of their own: the host goes on meanwhile, even if a driver never
// finishes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "runtime/os/thread.h"
#include "tests/cuda/emulated_hosts.h"
#include "tests/support/test_plan.h"
#include "tests/support/training_step.h"

namespace gangway {
namespace {

using testing::Each;

constexpr PlanId kOther{2};

// A gate at which the driver's compiler waits until a test opens it.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    came_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = came_ = false;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Blocks until a thread has come to the gate since it was closed.
  void await_waiting() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return came_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true, came_ = false;
};

class CudaInstall : public testing::Test {
 protected:
  static std::shared_ptr<const Plan> chain() {
    TestPlan t("chain", 1, 1);
    Builder b("chain", t.mesh());
    Value x = b.parameter("x", f32({4}));
    b.result("y", exp(x * 0.0) + 1.0);
    const uint32_t in = t.input("x", f32({4})), out = t.output("y", f32({4}));
    t.call("chain", t.function(b.build()), {in}, {out});
    return t.share();
  }
  void SetUp() override { t->will_start(kOther, chain()); }
  Host& host() { return *t->hosts[0]; }
  // Returns while the driver compiles; its compiler waits at the gate.
  Future<Installed> install_and_block() {
    gate.close();
    Future<Installed> installed = host().install(kOther, chain(), 0, {1});
    gate.await_waiting();
    return installed;
  }
  void commit(const Installed& installed) {
    host().link(kOther, installed.offers);
    host().commit_install(kOther).await();
  }
  void expect_to_run() {
    t->put<float>(ArrayId(200), kOther, 0, std::vector<float>(4, 5.0f));
    t->start({.plan = kOther,
              .run = RunId(50),
              .arguments = {{0, ArrayId(200), {}}},
              .outputs = {ArrayId(201)}});
    const Done done = t->wait(RunId(50));
    ASSERT_FALSE(done.error) << done.error->what();
    EXPECT_THAT(t->get<float>(ArrayId(201), 4), Each(2.0f));
  }

  Gate gate;
  const std::shared_ptr<emulated::EmulatedMachine> machine =
      std::make_shared<emulated::EmulatedMachine>(emulated::EmulatedOptions{
          .seed = 1, .background = true, .before_compile = [this] { gate.pass(); }});
  EmulatedHosts t{machine, 1, 1, 1};
};

TEST_F(CudaInstall, RunsOfOtherPlansEndWhileAPlanIsCompiled) {
  t->install(kPlan, training_step(1, 1));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  const Future<Installed> installed = install_and_block();
  t->start(step_request(kPlan, 1, 0.25f));
  const Done done = t->wait(RunId(1));
  EXPECT_FALSE(done.error) << done.error->what();
  EXPECT_FALSE(installed.ready());
  gate.open();
  commit(installed.await());
  expect_to_run();
  EXPECT_EQ(t.reports(), "");
}

TEST_F(CudaInstall, APlanThatIsUninstalledWhileItIsCompiledLeavesNothing) {
  const Future<Installed> installed = install_and_block();
  host().uninstall(kOther);
  ASSERT_TRUE(installed.ready());
  EXPECT_EQ(installed.result().error().kind(), ErrorKind::kCancelled);
  EXPECT_THROW(host().link(kOther, {}), Error);
  const Future<Installed> again = host().install(kOther, chain(), 0, {1});
  EXPECT_FALSE(again.ready());
  gate.open();
  commit(again.await());
  expect_to_run();
  EXPECT_EQ(t.reports(), "");
}

TEST_F(CudaInstall, APlanThatIsCompiledStillCanNeitherBeLinkedNorRun) {
  const Future<Installed> installed = install_and_block();
  EXPECT_THROW(host().link(kOther, {}), Error);
  EXPECT_THROW(host().prepare({0, {.plan = kOther, .run = RunId(1)}}), Error);
  EXPECT_THROW(static_cast<void>(host().install(kOther, chain(), 0, {1})), Error);
  gate.open();
  commit(installed.await());
  expect_to_run();
  EXPECT_EQ(t.reports(), "");
}

TEST_F(CudaInstall, AHostMayGoWhileAPlanIsCompiled) {
  const Future<Installed> first = install_and_block();
  const Future<Installed> behind = host().install(PlanId(3), chain(), 0, {1});
  Thread opener("opener", [&] { gate.open(); });  // Races with reports(), which destroys the host.
  EXPECT_EQ(t.reports(), "");
  for (const Future<Installed>& installed : {first, behind}) {
    ASSERT_TRUE(installed.ready());
    EXPECT_EQ(installed.result().error().kind(), ErrorKind::kCancelled);
  }
}

}  // namespace
}  // namespace gangway
