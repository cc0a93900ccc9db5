// Conformance suite of devices (executor/devices/device.h) and of their three parts: order, events,
// errors, copies, memory accounting.
//
// An implementation instantiates the suite with a maker; see devices_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "executor/devices/device.h"
#include "executor/devices/task.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct DeviceMaker {
  std::string name;
  std::function<std::unique_ptr<Reactor>()> reactor;
  std::function<std::unique_ptr<Device>(Reactor&, int64_t memory_bytes)> device;
  // Why this machine has no such device, or empty; null if every machine has one.
  std::function<std::string()> why_missing = nullptr;
};

class DeviceSuite : public testing::TestWithParam<DeviceMaker> {
 protected:
  static constexpr int64_t kBytes = int64_t{1} << 20;
  DeviceSuite() : reactor(GetParam().reactor()), device(GetParam().device(*reactor, kBytes)) {}
  void SetUp() override {
    if (device == nullptr) GTEST_SKIP() << GetParam().why_missing();
  }

  // Enqueues in one rank's stream.
  template <class Body>
  void enqueue(Body body) {
    enqueue_task(device->stream(), std::move(body), [](const std::shared_ptr<const Error>&) {},
                 {.rank_stream = &rank_stream});
  }
  // Runs the reactor until the device has done all that was enqueued in the stream before.
  void drain() { drain(&rank_stream); }
  void drain(RankStream* in) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    enqueue_task(
        device->stream(), [](Turn&) { return Progress::kDone; },
        [done, mailbox = &reactor->mailbox()](const std::shared_ptr<const Error>&) {
          mailbox->post([done] { *done = true; });
        },
        {.rank_stream = in});
    reactor->run_until([&] { return done->load(); });
  }

  std::unique_ptr<Reactor> reactor;
  RankStream rank_stream;
  std::unique_ptr<Device> device;
};

}  // namespace gangway
