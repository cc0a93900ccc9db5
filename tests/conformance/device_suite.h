// What every device must do (executor/devices/device.h): order, events, errors, copies, memory
// accounting.
//
// An implementation instantiates the suite with a maker; see devices_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "executor/devices/device.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct DeviceMaker {
  std::string name;
  std::function<std::unique_ptr<Reactor>()> reactor;
  std::function<std::unique_ptr<Device>(Reactor&, int64_t memory_bytes)> device;
  // Why there is no such device here; none: there always is.
  std::function<std::string()> why_missing = nullptr;
};

class DeviceSuite : public testing::TestWithParam<DeviceMaker> {
 protected:
  static constexpr int64_t kBytes = int64_t{1} << 20;
  DeviceSuite() : reactor(GetParam().reactor()), device(GetParam().device(*reactor, kBytes)) {}
  void SetUp() override {
    if (device == nullptr) GTEST_SKIP() << GetParam().why_missing();
  }

  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Device> device;
};

}  // namespace gangway
