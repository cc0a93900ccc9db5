#include "executor/devices/cpu/cpu_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include "executor/devices/device_threads_test.h"

namespace gangway {
namespace {

// Records the thread that did it.
class OneStep final : public Work {
 public:
  explicit OneStep(int64_t ns, std::future<void>* until = nullptr) : ns_(ns), until_(until) {}
  Progress advance(Turn&) override {
    begun.store(true);
    if (until_ != nullptr) until_->wait();
    done_by.set_value(std::this_thread::get_id());
    return Progress::kDone;
  }
  void retire(bool) override { retired.set_value(); }
  int64_t modelled_ns() const override { return ns_; }
  bool needs_others() const override { return ns_ == kNever; }

  std::atomic<bool> begun{false};
  std::promise<std::thread::id> done_by;
  std::promise<void> retired;

 private:
  const int64_t ns_;
  std::future<void>* const until_;
};

class CpuStreamTest : public testing::Test {
 protected:
  // Returns the thread that did the work.
  std::thread::id serve(int64_t ns) {
    OneStep& work = works_.emplace_back(ns);
    stream_.enqueue_unrung(work, rank_stream_);
    spent_ns_ = stream_.serve_or_ring(kBriefNs);
    work.retired.get_future().wait();
    return work.done_by.get_future().get();
  }

  std::deque<OneStep> works_;
  RankStream rank_stream_;
  Parallel par_{1};
  CpuStream stream_{"cpu", par_, SpinPolicy::park()};
  int64_t spent_ns_ = 0;
  const std::thread::id me_ = std::this_thread::get_id();
};

TEST_F(CpuStreamTest, BriefWorkRunsOnTheThreadThatEnqueuesIt) {
  for (int i = 0; i < 100; ++i) {
    tests::wait_until_others_sleep();  // Otherwise the device's thread may still be at it.
    EXPECT_EQ(serve(1000), me_);
    EXPECT_EQ(spent_ns_, 1000);
  }
}

TEST_F(CpuStreamTest, LongerWorkRunsOnTheDevicesThread) {
  for (const int64_t ns : {kBriefNs + 1, kNever}) {
    EXPECT_NE(serve(ns), me_);
    EXPECT_EQ(spent_ns_, 0);
  }
}

TEST_F(CpuStreamTest, ServingADeviceThatIsAtWorkDoesNotWait) {
  std::promise<void> go_on;
  std::future<void> gone_on = go_on.get_future();
  OneStep &first = works_.emplace_back(kNever, &gone_on), &second = works_.emplace_back(1000);
  stream_.enqueue(first, rank_stream_);
  while (!first.begun.load()) std::this_thread::yield();
  stream_.enqueue_unrung(second, rank_stream_);
  EXPECT_EQ(stream_.serve_or_ring(kBriefNs), 0);
  go_on.set_value();
  second.retired.get_future().wait();
  EXPECT_NE(second.done_by.get_future().get(), me_);
}

TEST_F(CpuStreamTest, ADeviceSpinsOnlyForPendingWorkWhileThereAreEnoughCores) {
  Parallel par(1);
  CpuStream stream("cpu", par, SpinPolicy::spin_then_park());
  stream.expect_peers(available_cores());
  EXPECT_GT(stream.spin_ns(Progress::kPending), 0);
  EXPECT_EQ(stream.spin_ns(Progress::kDone), 0);
  stream.expect_peers(available_cores() + 1);
  EXPECT_EQ(stream.spin_ns(Progress::kPending), 0);
}

}  // namespace
}  // namespace gangway
