// SimDeviceStream: the work of a simulated device. A fiber takes the place of the device's thread
// and advances the same queue. Time is that of the rates of "sim" (ir/plan/rates.h) and of the
// links (links.h), so that a run's timing repeats exactly from its seed.
//
// Threads: the reactor's only.
// Ownership: the threads of the kernels are the device's. The destructor stops the fiber and drops
// works that have not run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "executor/devices/device_stream.h"
#include "executor/devices/sim/sim_host.h"
#include "executor/kernels/parallel.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

class SimDeviceStream final : public DeviceStream {
 public:
  SimDeviceStream(Reactor& reactor, const std::string& device, std::shared_ptr<SimHost> host,
                  Parallel& par);
  ~SimDeviceStream() override;

  void ring() override;
  void stop() override;
  // Peers ring it through a function: see bell().
  void use_bell(Bell) override {}
  Bell bell() const { return {nullptr, bell_}; }
  bool collectives_block() const override { return true; }
  int64_t now_ns() const override;
  int64_t send_ns(LinkClass link, int64_t bytes) const override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) override;

 private:
  bool has_values() const { return !host_->options().timed_only; }
  void push(Work& work, RankStream* rank_stream) override;
  void serve();

  Reactor& reactor_;
  const std::shared_ptr<SimHost> host_;
  Parallel& par_;
  const std::shared_ptr<SimDeviceStream*>
      rung_stream_;  // Peers may ring a destroyed one: null then.
  const std::shared_ptr<const std::function<void()>> bell_;
  DeviceSchedule queue_;
  bool rung_ = false;
  bool stopping_ = false;
  WaitQueue ringing_;
  Fiber fiber_;
};

}  // namespace gangway
