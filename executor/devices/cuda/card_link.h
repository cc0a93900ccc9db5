// CardLink: a DeviceLink between CUDA devices: copies on the sender's communication stream.
//
//   sender's compute: record -> communication: wait, copy, record -> receiver's compute: wait
//
// Threads, ownership, errors: see device_link.h.
// Cost: four calls of the driver for a send, one for a receive.
#pragma once

#include <string>
#include <vector>

#include "executor/devices/cuda/cuda_stream.h"
#include "executor/transfers/device_link.h"

namespace gangway {

class CardLink final : public DeviceLink {
 public:
  CardLink(CudaStream& sender, CudaStream& receiver, uint32_t slots);
  ~CardLink() override;

  std::shared_ptr<const Error> send(uint32_t slot, void* to, const void* from,
                                    int64_t bytes) override;
  void join() override;
  void receive(uint32_t slot) override;

 private:
  CudaStream& sender_;
  CudaStream& receiver_;
  const std::string label_;
  cuda::EventHandle ready_;
  std::vector<cuda::EventHandle> sent_;  // Indexed by slot.
  // The last of them that compute may not yet have waited for; none: compute comes after all of
  // them.
  cuda::EventHandle last_;
};

}  // namespace gangway
