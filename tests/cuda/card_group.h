// CardGroup: members of one collective on cards, each a CUDA device with its thread, or one of
// several ranks of such a device.
//
// Threads: run() calls `body` for each member on a thread of its own.
// Ownership: the group owns its devices.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/cuda_device.h"
#include "executor/links/shared_link.h"
#include "executor/store/buffer.h"
#include "tests/conformance/collective_suite.h"

namespace gangway {

// Order of ranks if a device has several: consecutive ranks on each device, or devices in turn.
enum class RankOrder : uint8_t { kByDevice, kInTurn };

class CardGroup {
 public:
  // `cards`: the card of each device; `bytes_max`: the size of a bucket.
  CardGroup(const std::vector<std::shared_ptr<cuda::Gpu>>& cards, int64_t bytes_max,
            uint32_t ranks_per_device = 1, RankOrder order = RankOrder::kByDevice);
  ~CardGroup();

  // Runs `body` on every member at once. Returns false if it returned false on any of them.
  bool run(const MemberBody& body);

 private:
  struct Place {
    std::shared_ptr<CudaDevice> device;
    std::unique_ptr<Collective> collective;
    BufferPtr staging, data;
    HostMemory host;
  };

  struct Group {
    std::vector<uint32_t> devices;  // The device of each member.
    std::string name;
  };
  std::vector<std::unique_ptr<Collective>> meet(const Group& group);
  void on_device(Place& place, const std::function<Progress()>& body);
  bool collective(Place& place, const CollectiveCall& given, bool poisoned);
  bool exchange(Place& place, uint64_t word, bool poisoned, WordRange& words);

  SharedLink link_;
  std::vector<std::shared_ptr<OwnMemory>> memories_;
  std::vector<Place> places_;
};

}  // namespace gangway
