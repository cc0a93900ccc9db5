// CommCollective: the collectives of devices on cards of their own, through the driver's
// communicators (NCCL).
//
//   meet on the host -> communication stream: wait for compute -> all-reduce -> record -> compute
//                                                                                     waits
//
// The meeting says whether a member is poisoned: then nobody launches, so no member waits inside a
// communicator for one that does not come. Members enqueue in ticket order, and all communicators
// of a device share one stream, so that no two of them can wait for one another.
//
// The communicator is made by the first collective: rank 0's id goes round in words of the meeting.
// One that broke is aborted by all members at their next meeting and made anew by the one after.
//
// Threads: the device's. Ownership: the device and the meeting are the plan's. Errors: a call that
// fails is the device's failure since its last mark. Cost: NCCL's, and a meeting (about 1 us).
#pragma once

#include <memory>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/devices/cuda/cuda_device.h"

namespace gangway {

class CommCollective final : public Collective {
 public:
  CommCollective(CudaDevice& device, std::unique_ptr<Collective> meeting);
  ~CommCollective() override;

  uint32_t rank() const override { return meeting_->rank(); }
  uint32_t size() const override { return meeting_->size(); }
  void begin_all_reduce(std::span<const CollectiveTensor> tensors, Reduction reduction,
                        bool poisoned) override;
  void begin_exchange(uint64_t word, bool poisoned) override;
  Progress advance() override;
  bool poisoned() const override { return meeting_->poisoned(); }
  std::span<const uint64_t> words() const override { return meeting_->words(); }

 private:
  enum class Phase : uint8_t { kExchange, kId, kConnect, kMeet };
  static constexpr size_t kIdWords = sizeof(cuda::CommId) / sizeof(uint64_t);

  void begin_id();
  void exchange_id_word();
  bool take_id_word();
  void connect();
  bool connected();
  void meet();
  void launch();
  void drop_comm();

  CudaDevice& device_;
  const std::unique_ptr<Collective> meeting_;
  cuda::CommHandle comm_;
  cuda::EventHandle ready_, done_;
  uint64_t id_[kIdWords] = {};
  size_t id_words_ = 0;
  Phase phase_ = Phase::kExchange;
  bool broken_ = false;
  bool poisoned_ = false;  // As begin_all_reduce() said.
  std::vector<CollectiveTensor> tensors_;
  Reduction reduction_ = Reduction::kSum;
};

}  // namespace gangway
