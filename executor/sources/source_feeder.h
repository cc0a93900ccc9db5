// SourceFeeder: fills the source buffers of coming runs on a thread of its own, so that a device
// never waits for a disk.
//
// It runs as far ahead as runs are enqueued. A simulated host fills at once, on the reactor.
//
// Threads: fill() on the reactor thread; the event is recorded on the feeder's.
// Ownership: destination, source and part must live until the event.
// Errors: the event carries those of the pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "executor/sources/data_source.h"
#include "executor/work/event.h"
#include "runtime/os/doorbell.h"
#include "runtime/os/thread.h"

namespace gangway {

struct SourceJob {
  const DataSource* source = nullptr;
  uint64_t position = 0;
  const Box* part = nullptr;  // Part of the batch.
  std::byte* out = nullptr;
  EventPtr filled;
};

class SourceFeeder {
 public:
  SourceFeeder(std::string name, bool inline_only);
  ~SourceFeeder();

  void fill(SourceJob job);

 private:
  void serve();

  const std::string name_;
  const bool inline_only_;
  std::mutex mutex_;
  std::deque<SourceJob> jobs_;
  bool stop_ = false;
  Doorbell bell_;
  Thread thread_;  // Started by the first job.
};

}  // namespace gangway
