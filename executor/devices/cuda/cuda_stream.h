// CudaStream: the work of a GPU, or of a part of one: a thread that launches ahead, a compute
// stream that it launches on, and a communication stream.
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
// Threads: see device_stream.h.
// Ownership: the destructor stops the thread, waits for the streams and drops works that have not
// run. The Gpu is shared by the devices of one card.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/devices/cuda/collectives/comm_book.h"
#include "executor/devices/cuda/driver/card_streams.h"
#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/cuda/graph_cache.h"
#include "executor/devices/threaded_stream.h"

namespace gangway {

class CudaStream final : public ThreadedStream, public CardStreams {
 public:
  // Throws what the driver says.
  CudaStream(const std::string& device, std::shared_ptr<cuda::Gpu> gpu);
  ~CudaStream() override;

  void ring() override { ThreadedStream::ring(); }
  void stop() override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void copy_rows(const RowCopies& rows) override;
  void check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) override;
  void join_collectives() override { join(0); }

  // Drops graphs of functions that are gone. Any thread.
  void trim_graphs();
  CommBook& comms() { return *comms_; }

  // For functions compiled for it, and for collectives. Device thread.
  cuda::Gpu& gpu() const override { return *gpu_; }
  cuda::StreamHandle compute() const override { return compute_; }
  cuda::GraphCache& graphs() { return *graphs_; }
  cuda::StreamHandle communication() const override { return communication_; }
  cuda::Status fork() override;
  void end_collective() override;
  // Work that is enqueued on the compute stream next runs after all collectives but the newest
  // `overlapped`.
  void join(size_t overlapped);
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
  Mark make_mark() override;
  Progress look_for_mark(Mark mark, std::shared_ptr<const Error>* failure) override;

 private:
  // Target of the driver's callback, which may come while the device is destroyed.
  struct Ringer {
    std::mutex mutex;
    CudaStream* stream = nullptr;
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

  std::atomic<bool> trim_wanted_{false};
};

}  // namespace gangway
