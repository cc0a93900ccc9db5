#include "executor/devices/cuda/cuda_stream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "executor/devices/cuda/lower/lower.h"

namespace gangway {

using cuda::At;
using cuda::Status;

namespace {

// How long a device that waits for a mark relies on the driver's callback.
constexpr int64_t kLookAgainNs = 2'000'000;

}  // namespace

CudaStream::CudaStream(const std::string& device, std::shared_ptr<cuda::Gpu> gpu)
    : ThreadedStream(device, /*discrete=*/true),
      gpu_(std::move(gpu)),
      compute_(gpu_->driver().make_stream(cat(device, " compute")).take()),
      communication_(gpu_->driver()
                         .make_stream(cat(device, " communication"), cuda::StreamPriority::kUrgent)
                         .take()),
      marks_(gpu_->driver().make_stream(cat(device, " marks")).take()),
      capture_(gpu_->driver().make_stream(cat(device, " capture")).take()),
      graphs_(std::make_unique<cuda::GraphCache>(gpu_->driver(), capture_)),
      comms_(std::make_unique<CommBook>(*this)) {
  ringer_->stream = this;
  begin_thread([this] { serve(); });
}

CudaStream::~CudaStream() {
  stop();
  cuda::Driver& driver = gpu_->driver();
  for (const PendingMark& pending : pending_) driver.destroy(pending.event);
  for (const cuda::EventHandle event : collectives_) {
    if (event) driver.destroy(event);
  }
  for (const cuda::EventHandle event : free_events_) driver.destroy(event);
  driver.destroy(compute_);
  driver.destroy(communication_);
  driver.destroy(marks_);
  graphs_ = nullptr;
  driver.destroy(capture_);
}

void CudaStream::stop() {
  if (!end_thread()) return;
  // The card may wait inside a communicator for peers that are gone.
  comms_->break_all(nullptr);
  // The card may still use memory that is dropped below, or objects that its callback uses.
  for (const cuda::StreamHandle stream : {compute_, communication_, marks_}) {
    if (lost_ == nullptr) static_cast<void>(gpu_->driver().synchronize(stream));
  }
  {
    const std::lock_guard lock(ringer_->mutex);
    ringer_->stream = nullptr;
  }
  queue_.drop();
}

void CudaStream::trim_graphs() {
  trim_wanted_.store(true, std::memory_order_release);
  ring();
}

std::shared_ptr<const Error> CudaStream::failure_of(const Status& status) {
  if (!status.failed()) return nullptr;
  auto error = std::make_shared<Error>(to_error(status));
  error->add_where({.device = name()});
  if (status.sticky && lost_ == nullptr) {
    lost_ = error;
    comms_->break_all(error);
    // Returns at once on a lost card; afterwards nothing on the card touches memory any more.
    static_cast<void>(gpu_->driver().synchronize(compute_));
    static_cast<void>(gpu_->driver().synchronize(communication_));
  }
  return error;
}

bool CudaStream::note(const Status& status) {
  if (!status.failed()) return true;
  auto failure = failure_of(status);
  failures_.try_emplace(at_work, std::move(failure));  // The first one says why.
  return false;
}

std::shared_ptr<const Error> CudaStream::take_failure(const Work* owner) {
  auto taken = failures_.extract(owner);
  return taken.empty() ? nullptr : std::move(taken.mapped());
}

void CudaStream::copy(void* to, const void* from, int64_t bytes) {
  if (bytes <= 0 || lost_ != nullptr) return;
  note(gpu_->driver().copy({compute_, "copy"}, to, from, bytes));
}

void CudaStream::copy_rows(const RowCopies& rows) {
  if (rows.bytes <= 0 || rows.rows <= 0 || lost_ != nullptr) return;
  const bool is_one_operation =
      rows.rows > 1 && rows.to_step <= cuda::kRowStepMax && rows.from_step <= cuda::kRowStepMax;
  if (!is_one_operation) return DeviceStream::copy_rows(rows);
  note(gpu_->driver().copy_rows({compute_, "copy"}, rows));
}

void CudaStream::check_finite(DType dtype, const void* data, int64_t elements, uint32_t* flag) {
  if (elements <= 0 || lost_ != nullptr) return;
  const uint32_t threads = cuda::block_threads(elements);
  const int64_t blocks = cuda::blocks_for(gpu_->info(), elements, threads);
  const void* const arguments[] = {static_cast<const void*>(&data), static_cast<const void*>(&flag),
                                   &elements};
  const cuda::Access accesses[] = {
      {data, elements * static_cast<int64_t>(size_of(dtype)), cuda::AccessKind::kRead},
      {flag, sizeof(*flag), cuda::AccessKind::kWrite}};
  note(gpu_->driver().launch({compute_, "check_finite"},
                             {.kernel = gpu_->kernel(cat("not_finite_", to_string(dtype))),
                              .grid = {static_cast<uint32_t>(blocks)},
                              .block = {threads},
                              .arguments = arguments,
                              .accesses = accesses}));
}

cuda::EventHandle CudaStream::take_event() {
  if (free_events_.empty()) {
    const Result<cuda::EventHandle> made = gpu_->driver().make_event();
    if (made.ok()) return made.value();
    note({cuda::StatusKind::kLaunch, false, made.error().message()});
    return {};
  }
  const cuda::EventHandle event = free_events_.back();
  free_events_.pop_back();
  return event;
}

Status CudaStream::fork() {
  const cuda::EventHandle event = take_event();
  if (!event) return {cuda::StatusKind::kLaunch, false, "fork: there is no event"};
  free_events_.push_back(event);  // A wait that was enqueued is not changed by later records.
  const Status recorded = gpu_->driver().record({compute_, "fork"}, event);
  return recorded.ok() ? gpu_->driver().wait({communication_, "fork"}, event) : recorded;
}

void CudaStream::end_collective() {
  collectives_.push_back(record_on({communication_, "collective"}));
}

// Collectives end in the order of their stream, so waiting for the last one waits for all before.
void CudaStream::join(size_t overlapped) {
  if (collectives_.size() <= overlapped) return;
  const auto last = collectives_.end() - static_cast<std::ptrdiff_t>(overlapped);
  cuda::EventHandle& event = *(last - 1);
  // end_collective() could not record it.
  if (!event) event = record_on({communication_, "collective"});
  if (event && lost_ == nullptr) note(gpu_->driver().wait({compute_, "join"}, event));
  std::copy_if(collectives_.begin(), last, std::back_inserter(free_events_),
               [](cuda::EventHandle done) { return static_cast<bool>(done); });
  collectives_.erase(collectives_.begin(), last);
}

cuda::EventHandle CudaStream::record_on(At at) {
  if (lost_ != nullptr) return {};
  const cuda::EventHandle event = take_event();
  if (!event || note(gpu_->driver().record(at, event))) return event;
  free_events_.push_back(event);
  return {};
}

Mark CudaStream::make_mark() {
  join(0);
  const Mark mark = ++last_mark_;
  if (lost_ != nullptr) {
    take_failure(at_work);
    reached_[mark] = {at_work, lost_};
    return mark;
  }
  const cuda::EventHandle event = take_event();
  const At at{compute_, "mark"};
  if (event) {
    const auto ring = [](void* ringer) {
      auto* to = static_cast<Ringer*>(ringer);
      const std::lock_guard lock(to->mutex);
      if (to->stream != nullptr) to->stream->ring();
    };
    // Compute would stand still until the driver's thread has called back; the marks' stream may.
    const At beside{marks_, "mark"};
    if (note(gpu_->driver().record(at, event)) && note(gpu_->driver().wait(beside, event)))
      note(gpu_->driver().notify(beside, ring, ringer_.get()));
  }
  pending_.push_back({mark, at_work, event, take_failure(at_work)});
  return mark;
}

void CudaStream::query_marks() {
  while (!pending_.empty()) {
    PendingMark& first = pending_.front();
    if (first.event && lost_ == nullptr) {
      const Status status = gpu_->driver().query(first.event);
      if (status.kind == cuda::StatusKind::kNotReady) return comms_->look();
      if (auto failure = failure_of(status); first.failure == nullptr) first.failure = failure;
    }
    auto broken = comms_->reached(first.mark, first.owner);
    if (first.failure == nullptr) first.failure = std::move(broken);
    if (lost_ != nullptr && first.failure == nullptr) first.failure = lost_;
    reached_[first.mark] = {first.owner, std::move(first.failure)};
    if (first.event) free_events_.push_back(first.event);
    pending_.pop_front();
  }
}

Progress CudaStream::look_for_mark(Mark mark, std::shared_ptr<const Error>* failure) {
  query_marks();
  const auto found = reached_.find(mark);
  if (found == reached_.end()) return Progress::kPending;
  *failure = found->second.failure;
  // A run that was given up has not asked for its earlier marks.
  const Work* owner = found->second.owner;
  std::erase_if(reached_,
                [&](const auto& item) { return item.first <= mark && item.second.owner == owner; });
  return Progress::kDone;
}

void CudaStream::serve() {
  while (!stopping()) {
    Doorbell& bell = this->bell();
    const uint32_t ticket = bell.ticket();
    if (trim_wanted_.exchange(false, std::memory_order_acq_rel)) graphs_->trim();
    Turn turn{.stream = *this, .now_ns = now_ns()};
    const Progress progress = queue_.advance(turn);
    if (stopping()) break;
    int64_t limit_ns = -1;
    if (progress == Progress::kPending && turn.wake_at_ns != kNever)
      limit_ns = std::max<int64_t>(0, turn.wake_at_ns - now_ns());
    if (!pending_.empty())
      limit_ns = limit_ns < 0 ? kLookAgainNs : std::min(limit_ns, kLookAgainNs);
    bell.wait(ticket, {"device", 0}, limit_ns);
  }
}

}  // namespace gangway
