// CardGroup: members of one collective on cards, each a CUDA device with its thread.
//
// Threads: a member's calls from a thread of its own each.
// Ownership: the group owns its devices.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "executor/devices/cuda/cuda_device.h"
#include "executor/links/shared_link.h"
#include "tests/conformance/collective_suite.h"

namespace gangway {

class CardGroup {
 public:
  // `cards`: the card of each member, by rank. `bytes_max`: of a bucket.
  CardGroup(const std::vector<std::shared_ptr<cuda::Gpu>>& cards, int64_t bytes_max);
  ~CardGroup();

  // body on every member at once. False: it was false on one of them.
  bool run(const MemberBody& body);

 private:
  struct Place {
    std::unique_ptr<CudaDevice> device;
    std::unique_ptr<Collective> collective;
    BufferPtr staging, data;
    HostMemory host;
  };

  void on_device(Place& place, const std::function<Progress()>& body);
  bool all_reduce(Place& place, std::span<const CollectiveTensor> tensors, Reduction reduction,
                  bool poisoned);
  bool exchange(Place& place, uint64_t word, bool poisoned, WordRange& words);

  SharedLink link_;
  std::shared_ptr<OwnMemory> memory_;
  std::vector<Place> places_;
};

}  // namespace gangway
