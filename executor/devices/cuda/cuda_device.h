// CudaDevice: a GPU, or a part of one, behind the driver's table: a thread that launches ahead, a
// compute stream that it launches on, and a communication stream.
//
// The thread advances works as a CPU device's does, while the card runs what they have started. A
// mark is an event on the compute stream. When it is reached the driver's callback rings the
// device; since the callback may not come, a device that waits for a mark also looks at intervals.
//
// A failure is kept for the work that started the operation, until that work takes its next mark.
//
// A sticky error ends the device: nothing is launched any more, every mark is reached and has that
// error, and so do the runs.
//
// Collectives overlap with compute, on the communication stream: it forks from the work that
// compute has so far, and compute joins a collective before work that needs it done; a mark joins
// all of them.
//
// Threads: see device.h.
// Ownership: the destructor stops the thread, waits for the streams and drops works that have not
// run. The Gpu is shared by the devices of one card.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/devices/cuda/collectives/comm_book.h"
#include "executor/devices/cuda/cuda_compiler.h"
#include "executor/devices/cuda/driver/card_streams.h"
#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/cuda/graph_cache.h"
#include "executor/devices/device.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/thread.h"

namespace gangway {

struct CudaDeviceOptions {
  std::string name;
  int64_t memory_bytes = 0;
  std::shared_ptr<cuda::Gpu> gpu;
};

class CudaDevice final : public Device, public CardStreams {
 public:
  // Throws what the driver says.
  explicit CudaDevice(const CudaDeviceOptions& options);
  ~CudaDevice() override;

  std::unique_ptr<Collective> collective(Meetings meetings, const DeviceGroup& group) override;
  int64_t collective_bytes(const DeviceGroup& group) const override;
  std::optional<CollectiveRefusal> refuses(const DeviceGroup& group) const override;
  std::unique_ptr<DeviceLink> link_to(Device& receiver, uint32_t slots) override;
  void ring() override;
  void stop() override;
  void use_bell(Bell bell) override;
  int64_t now_ns() const override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) override;
  void join_collectives() override { join(0); }
  // Drops graphs of functions that are gone. Any thread.
  void trim_graphs();

  // For functions compiled for it, and for collectives. Device thread.
  cuda::Gpu& gpu() const override { return *gpu_; }
  cuda::StreamHandle compute() const override { return compute_; }
  cuda::GraphCache& graphs() { return *graphs_; }
  cuda::StreamHandle communication() const override { return communication_; }
  cuda::Status fork() override;
  void end_collective() override;
  // Work that is enqueued on the compute stream next runs after all collectives but the newest
  // `beside`.
  void join(size_t beside);
  const Work* owner() const override { return at_work; }
  Mark next_mark() const override { return last_mark_ + 1; }
  Mark take_mark() override { return make_mark(); }
  Progress look_for(Mark mark, std::shared_ptr<const Error>* failure) override {
    return look_for_mark(mark, failure);
  }
  const std::shared_ptr<const Error>& lost() const override { return lost_; }
  std::shared_ptr<const Error> failure_of(const cuda::Status& status) override;
  bool note(const cuda::Status& status) override;

 protected:
  void push(Work& work, Lane* lane) override;
  Mark make_mark() override;
  Progress look_for_mark(Mark mark, std::shared_ptr<const Error>* failure) override;

 private:
  // Target of the driver's callback, which may come while the device is destroyed.
  struct Ringer {
    std::mutex mutex;
    CudaDevice* device = nullptr;
  };
  struct PendingMark {
    Mark mark = 0;
    const Work* owner = nullptr;
    cuda::EventHandle event;
    std::shared_ptr<const Error> failure;
  };

  void serve();
  // The failure that was noted for this work since its last mark; null: none.
  std::shared_ptr<const Error> take_failure(const Work* owner);
  void query_marks();
  cuda::EventHandle take_event();
  // A new event at the end of the stream; none where the driver fails.
  cuda::EventHandle record_on(cuda::At at);

  const std::shared_ptr<cuda::Gpu> gpu_;
  CudaCompiler compiler_;
  cuda::StreamHandle compute_, communication_;
  cuda::StreamHandle marks_;  // For callbacks; it waits for compute, nothing waits for it.
  cuda::StreamHandle capture_;
  std::unique_ptr<cuda::GraphCache> graphs_;
  std::unique_ptr<CommBook> comms_;
  const std::shared_ptr<Ringer> ringer_ = std::make_shared<Ringer>();

  std::shared_ptr<const Error> lost_;
  std::map<const Work*, std::shared_ptr<const Error>> failures_;  // Since its owner's last mark.
  Mark last_mark_ = 0;
  std::deque<PendingMark> pending_;
  struct ReachedMark {
    const Work* owner = nullptr;
    std::shared_ptr<const Error> failure;
  };
  std::map<Mark, ReachedMark> reached_;        // Marks that nobody has asked for yet.
  std::deque<cuda::EventHandle> collectives_;  // Ends of collectives that compute has not joined.
  std::vector<cuda::EventHandle> free_events_;

  LaneQueue queue_;
  Doorbell own_bell_;
  std::atomic<Doorbell*> bell_{&own_bell_};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> trim_wanted_{false};
  Thread thread_;  // Last: it uses everything above.
};

}  // namespace gangway
