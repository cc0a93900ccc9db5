#include "sim/sim_process.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/clock_ns.h"

namespace gangway {
void SimProcess::resume() {
  stopped_ = false;
  resumed_.wake_all();
}

void SimProcess::wait_until_running() {
  while (stopped_) resumed_.wait("for a stopped process to go on");
}

int64_t SimProcess::moving_ns(size_t bytes) const {
  return std::llround(rates_.ns_per_byte * static_cast<double>(bytes));
}

// Begins when all earlier work is done.
void SimProcess::work(int64_t ns) {
  wait_until_running();
  const int64_t now_ns = reactor_.clock().now_ns();
  free_at_ns_ = std::max(now_ns, free_at_ns_) + ns;
  counts_.busy_ns += ns;
  const int64_t done_ns = free_at_ns_;
  if (done_ns > now_ns) WaitQueue().wait_until_ns("for a process to do its work", done_ns);
  wait_until_running();
}

void SimProcess::begin_frame(size_t bytes) {
  ++counts_.frames_in;
  counts_.bytes_in += bytes;
  if (time_ == ProcessTime::kFree) return wait_until_running();
  const int64_t handling_ns = time_ == ProcessTime::kModelled ? rates_.frame_in_ns : 0;
  work(rates_.read_ns + handling_ns + moving_ns(bytes));
  if (time_ == ProcessTime::kMeasured) frame_begun_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

// Frames that the process sent while it handled this one leave when that is done (write()).
void SimProcess::end_frame() {
  if (time_ != ProcessTime::kMeasured) return;
  const int64_t ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - frame_begun_ns_;
  free_at_ns_ = std::max(reactor_.clock().now_ns(), free_at_ns_) + ns;
  counts_.busy_ns += ns;
  counts_.processor_ns += ns;
}

void SimProcess::write(size_t frames, size_t bytes) {
  counts_.frames_out += frames;
  counts_.bytes_out += bytes;
  if (time_ == ProcessTime::kFree) return wait_until_running();
  work(rates_.write_ns + static_cast<int64_t>(frames) * rates_.frame_out_ns + moving_ns(bytes));
}

// With kMeasured this time is part of handling a frame.
void SimProcess::prepare_calls(size_t calls) {
  if (time_ != ProcessTime::kModelled) return wait_until_running();
  work(static_cast<int64_t>(calls) * rates_.call_ns);
}

void SimProcess::compile(size_t nodes) {
  if (time_ != ProcessTime::kFree) {
    const int64_t ns = static_cast<int64_t>(nodes) * rates_.compile_ns;
    WaitQueue().wait_until_ns("for a program to be compiled", reactor_.clock().now_ns() + ns);
  }
  wait_until_running();
}

void SimProcess::wake() { wait_until_running(); }

}  // namespace gangway
