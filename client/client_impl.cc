#include "client/client_impl.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "client/failed_runs.h"
#include "runtime/base/printable.h"

namespace gangway::internal {
namespace {

void to_standard_error(const std::string& line) {
  std::fprintf(stderr, "gangway: %s\n", printable_lines(line).c_str());
}

// The connection to the controller calls this, and an exception of the user's code would end it.
void warn(const ConnectOptions& options, const std::string& line) {
  try {
    return options.on_warning ? options.on_warning(line) : to_standard_error(line);
  } catch (const std::exception& error) {
    to_standard_error(cat("on_warning threw: ", error.what()));
  } catch (...) {
    to_standard_error("on_warning threw something that is no exception");
  }
  to_standard_error(line);
}

void tell_of_stop(const ConnectOptions& options, const std::string& by, int64_t grace_ms) {
  try {
    if (options.on_stop) options.on_stop(by, grace_ms);
  } catch (const std::exception& error) {
    to_standard_error(cat("on_stop threw: ", error.what()));
  } catch (...) {
    to_standard_error("on_stop threw something that is no exception");
  }
}

// Messages of a simulation must be as long in every process, so a name there has no process number.
std::string name_of(const ConnectOptions& options) {
  if (!options.name.empty()) return options.name;
  return Reactor::current().simulated() ? "process" : cat("process ", getpid());
}

}  // namespace

ClientImpl::ClientImpl(const MakeCluster& make, const ConnectOptions& options, Joins joins)
    : thread_(std::make_unique<ReactorThread>("gangway-client")) {
  try {
    thread_->ask("connect", [&] {
      Reactor& reactor = Reactor::current();
      notify.home = &reactor;
      if (!options.trace_path.empty()) {
        timeline_ =
            std::make_unique<Timeline>(reactor.clock(), options.trace_path,
                                       options.in_process ? "client and controller" : "client");
      }
      cluster_ = make(reactor);
      is_local_ = cluster_->ends_with_client();
      open(cluster_->network(), cluster_->address(), options, joins);
    });
  } catch (const Error&) {
    thread_->ask("clean up", [&] {
      cluster_.reset();
      timeline_.reset();
    });
    throw;
  }
}

ClientImpl::ClientImpl(Reactor& reactor, Network& network, const std::string& address,
                       const ConnectOptions& options, Joins joins) {
  notify.home = &reactor;
  reactor.run([&] { open(network, address, options, joins); });
}

ClientImpl::~ClientImpl() {
  if (is_attached_ && !closed_) {
    try {
      detach();
    } catch (const Error&) {  // The controller is gone, or will find out by itself.
    }
  }
  try {
    close();
  } catch (const Error&) {  // The timeline could not be written, and nobody is left to tell.
  }
}

void ClientImpl::open(Network& network, const std::string& address, const ConnectOptions& options,
                      Joins joins) {
  const Session::Options asked{
      .name = name_of(options),
      .number_name = options.number_name || options.name.empty(),
      .attaches = joins == Joins::kDetached,
      .share = {.weight = options.weight, .priority = options.priority},
      .timeout_ms = options.timeout_ms,
      .token_file = options.token_file,
      .on_warning = [options](const std::string& line) { warn(options, line); },
      .on_stop =
          [this, options](const std::string& by, int64_t grace_ms) {
            stop_requested_ = true;
            tell_of_stop(options, by, grace_ms);
            return options.on_stop || looks_for_stops_;
          }};
  session_ = std::make_unique<Session>(Reactor::current(), network, address, asked);
  desk_ = session_->desk();
  base_ = session_->id() << 40;
  name_ = session_->name();
  address_ = address;
  has_chosen_name_ = !options.name.empty();
  is_attached_ = joins == Joins::kDetached;
  if (is_attached_) {
    const uint64_t last = session_->holdings().last_name;
    names_ = last > base_ ? last - base_ : 0;
  }
  run_credits = session_->run_credits();
  copy_credits_ = session_->copy_credits();
}

void ClientImpl::close() {
  if (closed_.exchange(true)) return;
  if (notify.is_at_home()) {
    notify.home->run([this] { end(); });
  } else {
    thread_->ask("close", [this] { end(); });
  }
}

void ClientImpl::end() {
  session_->send_last_lines(*lines_);
  session_->close();
  end_cluster();
}

void ClientImpl::free_on_thread(PartPtr part) {
  if (part == nullptr || has_ended_) return;
  if (freeing_ == nullptr)
    freeing_ = std::make_unique<Background>(*notify.home, "client/freeing", 1);
  static_cast<void>(freeing_->start([part = std::move(part)] {}));
}

void ClientImpl::end_cluster() {
  has_ended_ = true;
  freeing_.reset();
  std::vector<std::string> traces;
  if (cluster_ != nullptr) traces = cluster_->stop();
  cluster_.reset();
  const std::unique_ptr<Timeline> timeline = std::move(timeline_);
  if (timeline != nullptr) timeline->write(std::move(traces));
}

void ClientImpl::post(std::function<void(Session&)> body) {
  if (notify.is_at_home()) return body(*session_);
  posted_.fetch_add(1, std::memory_order_relaxed);
  thread_->mailbox().post([this, body = std::move(body)] {
    body(*session_);
    posted_.fetch_sub(1, std::memory_order_release);
  });
}

void ClientImpl::send_run(RunFrame frame, RunDone done, bool is_only_one) {
  if (is_only_one && may_pass_reactor() && desk_->send(frame, done)) return;
  post([frame = std::move(frame), done = std::move(done)](Session& session) {
    session.run(frame, done);
  });
}

void ClientImpl::let_go(ArrayId array) {
  if (may_pass_reactor() && desk_->let_go(array)) return;
  post([array](Session& session) { session.free(array); });
}

void ClientImpl::report(Reported numbers) {
  if (!reports_->say(std::move(numbers))) return;
  post([reports = reports_](Session& session) { session.send_reports(reports); });
}

void ClientImpl::log(const std::string& text) {
  if (!lines_->say(text)) return;
  post([lines = lines_](Session& session) { session.send_log(lines); });
}

// Whether the reactor has done all that this thread has posted.
bool ClientImpl::may_pass_reactor() const {
  return !notify.is_at_home() && posted_.load(std::memory_order_acquire) == 0;
}

SegmentHeap& ClientImpl::heap() {
  std::lock_guard lock(heap_mutex_);
  if (heap_ == nullptr) heap_ = std::make_shared<SegmentHeap>(kSegmentBytes);
  return *heap_;
}

CopyDoneFrame ClientImpl::copy(const CopyFrame& frame, const PartPtr& part) {
  const auto ended = std::make_shared<std::optional<CopyDoneFrame>>();
  CopyFrame whole = frame;
  whole.at = {part->segment(), part->offset(), part->bytes()};
  take_copy_place();
  post_copy(std::move(whole), part, [ended](const CopyDoneFrame& done) { *ended = done; });
  notify.wait([&] { return ended->has_value(); });
  return **ended;
}

ClientImpl::PartPtr ClientImpl::get(const CopyFrame& frame, int64_t bytes) {
  while (true) {
    PartPtr part = heap().take(bytes);
    const CopyDoneFrame ended = copy(frame, part);
    if (ended.comes_again) continue;
    if (ended.error) throw Error(*ended.error);
    return part;
  }
}

void ClientImpl::put(const CopyFrame& frame, const PartPtr& part) {
  const CopyDoneFrame ended = copy(frame, part);
  if (ended.error) throw Error(*ended.error);
}

void ClientImpl::take_copy_place() {
  notify.wait([this] {
    if (copies_under_way_ >= copy_credits_) return false;
    ++copies_under_way_;
    return true;
  });
}

void ClientImpl::give_back_copy_place() {
  notify.change([this] { --copies_under_way_; });
}

void ClientImpl::post_copy(CopyFrame frame, PartPtr part, Session::CopyDone done) {
  part->lend();
  post([this, frame = std::move(frame), part = std::move(part),
        done = std::move(done)](Session& session) {
    session.copy(frame, [this, part, done](const CopyDoneFrame& ended) mutable {
      if (ended.is_settled) part->returned();
      // The waiting thread then drops the last reference, before it takes another part.
      part.reset();
      notify.change([&] {
        done(ended);
        --copies_under_way_;
      });
    });
  });
}

void wait_for(Notify& notify, Outcome& outcome) {
  notify.wait([&] { return outcome.done; });
  if (!outcome.error) return;
  {
    const std::lock_guard lock(notify.mutex);
    note_told(*outcome.chain);
  }
  throw *outcome.error;
}

bool is_done(Notify& notify, Outcome& outcome) {
  const std::lock_guard lock(notify.mutex);
  return outcome.done;
}

RunId ExecutableImpl::next_in_chain(RunId run, Outcome& outcome) {
  const std::lock_guard lock(client->notify.mutex);
  if (chain->told) begin_chain(*this);
  outcome.chain = chain;
  outcome.chain->last_run = outcome.weak_from_this();
  outcome.run = run;
  return std::exchange(outcome.chain->last, run);
}

SliceImpl::~SliceImpl() {
  if (is_held) return;
  client->post([id = id](Session& session) { session.release_slice(id); });
}

ExecutableImpl::~ExecutableImpl() {
  let_go_placed();
  if (is_held) return;
  client->post([id = plan.plan](Session& session) { session.release_plan(id); });
}

// Arrays that are gone are dropped when the list would grow.
void ExecutableImpl::note_placed(const std::shared_ptr<ArrayImpl>& array) {
  const std::lock_guard lock(client->notify.mutex);
  if (placed.size() == placed.capacity())
    std::erase_if(placed, [](const auto& weak) { return weak.expired(); });
  placed.push_back(array);
}

void ExecutableImpl::let_go_placed() {
  std::vector<std::weak_ptr<ArrayImpl>> arrays;
  {
    const std::lock_guard lock(client->notify.mutex);
    arrays.swap(placed);
  }
  for (const auto& weak : arrays) {
    if (const auto array = weak.lock()) array->let_go_placed(plan.plan);
  }
}

ArrayImpl::~ArrayImpl() {
  if (client == nullptr) return;
  std::vector<ArrayId> names;
  if (outcome != nullptr) names.push_back(id);
  for (const auto& [where, copy] : placed) names.push_back(copy->id);
  for (ArrayId name : names) client->let_go(name);
}

bool ArrayImpl::ready() const { return outcome == nullptr || is_done(client->notify, *outcome); }

HostTensor ArrayImpl::to_host() const {
  if (tensor) return *tensor;
  wait_for(client->notify, *outcome);
  HostTensor host(type);
  if (const auto at = outcome->small.find(output); at != outcome->small.end()) {
    GW_REQUIRE(at->second.size() == host.bytes.size(), "array: expected ", host.bytes.size(),
               " bytes, got ", at->second.size());
    host.bytes = at->second;
    return host;
  }
  const auto part = client->get({.kind = CopyKind::kGet, .array = id}, type.bytes());
  std::memcpy(host.bytes.data(), part->data(), host.bytes.size());
  return host;
}

std::shared_ptr<PlacedCopy> ArrayImpl::placed_copy(PlanId plan, uint32_t input) const {
  const auto found = placed.find({plan, input});
  if (found == placed.end()) return nullptr;
  const std::lock_guard outcomes(client->notify.mutex);
  return found->second->failed ? nullptr : found->second;
}

void ArrayImpl::let_go_placed(PlanId plan) {
  std::vector<ArrayId> names;
  {
    const std::lock_guard lock(mutex);
    std::erase_if(placed, [&](const auto& entry) {
      const bool goes = entry.first.first == plan;
      if (goes) names.push_back(entry.second->id);
      return goes;
    });
  }
  for (const ArrayId name : names) client->post([name](Session& session) { session.free(name); });
}

ArrayImpl::Placed ArrayImpl::place(PlanId plan, uint32_t input) {
  {
    const std::lock_guard lock(mutex);
    if (auto copy = placed_copy(plan, input)) return {std::move(copy)};
  }
  std::shared_ptr<SegmentHeap::Part> part = client->heap().take(type.bytes());
  std::memcpy(part->data(), tensor->bytes.data(), tensor->bytes.size());
  client->take_copy_place();
  const std::lock_guard lock(mutex);
  if (auto copy = placed_copy(plan, input)) {  // Another thread has put it meanwhile.
    client->give_back_copy_place();
    return {std::move(copy)};
  }
  std::shared_ptr<PlacedCopy>& copy = placed[{plan, input}];
  if (copy != nullptr) client->post([id = copy->id](Session& session) { session.free(id); });
  copy = std::make_shared<PlacedCopy>(PlacedCopy{client->new_array(), {}});
  CopyFrame put{.kind = CopyKind::kPut,
                .at = {part->segment(), part->offset(), part->bytes()},
                .array = copy->id,
                .plan = plan,
                .input = input};
  // The error of a failed put shows in the run that names it.
  client->post_copy(std::move(put), std::move(part),
                    [copy = copy](const CopyDoneFrame& ended) { copy->failed = ended.error; });
  return {copy, true};
}

}  // namespace gangway::internal
