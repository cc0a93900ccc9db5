// A listener of runs on devices that ignores all reports, for tests that look at the run itself.
//
// Threads: any.
#pragma once

#include <memory>

#include "executor/replay/device_run.h"

namespace gangway {

class DeafListener final : public DeviceRun::Listener {
 public:
  void device_done(DeviceRun&) override {}
  void sections_ended(DeviceRun&) override {}
  void compile_unfused(const LaidOutShare&, const std::shared_ptr<CompileJob>&) override {}
};

}  // namespace gangway
