// What every device must do (executor/device.h): order, events, errors, copies, memory accounting.
//
// An implementation instantiates the suite with a maker; see devices_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "executor/device.h"
#include "runtime/reactor.h"

namespace gangway {

struct DeviceMaker {
  std::string name;
  std::function<std::unique_ptr<Reactor>()> reactor;
  std::function<std::unique_ptr<Device>(Reactor&, int64_t memory_bytes)> device;
};

class DeviceSuite : public testing::TestWithParam<DeviceMaker> {
 protected:
  static constexpr int64_t kBytes = int64_t{1} << 20;
  DeviceSuite() : reactor(GetParam().reactor()), device(GetParam().device(*reactor, kBytes)) {}

  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Device> device;
};

}  // namespace gangway
