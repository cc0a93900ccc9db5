#include "client/session.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

#include "client/connection.h"
#include "client/failed_runs.h"
#include "client/objects.h"
#include "protocol/frames.h"
#include "runtime/base/printable.h"
#include "runtime/observe/trace.h"

namespace gangway::internal {
namespace {

Error detached_error() { return {ErrorKind::kCancelled, "client: detached from its program"}; }

void to_standard_error(const std::string& line) {
  std::fprintf(stderr, "gangway: %s\n", printable_lines(line).c_str());
}

// The connection to the controller calls this, and an exception of the user's code would end it.
void warn_user(const ConnectOptions& options, const std::string& line) {
  try {
    return options.on_warning ? options.on_warning(line) : to_standard_error(line);
  } catch (const std::exception& error) {
    to_standard_error(cat("on_warning threw: ", error.what()));
  } catch (...) {
    to_standard_error("on_warning threw something that is no exception");
  }
  to_standard_error(line);
}

void tell_of_stop(const ConnectOptions& options, const StopAsked& asked) {
  try {
    if (options.on_stop) options.on_stop(asked.by, asked.grace_ms);
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

Session::Session(const MakeCluster& make, const ConnectOptions& options, Joins joins)
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
      give_up_opening(joins);
      cluster_.reset();
      timeline_.reset();
    });
    throw;
  }
}

Session::Session(Reactor& reactor, Network& network, const std::string& address,
                 const ConnectOptions& options, Joins joins) {
  notify.home = &reactor;
  reactor.run([&] {
    const Result<void> opened = result_of([&] { open(network, address, options, joins); });
    if (opened.ok()) return;
    give_up_opening(joins);
    throw Error(opened.error());
  });
}

Session::~Session() {
  if (is_attached_ && !closed_) {
    try {
      detach();
    } catch (const Error&) {  // The controller finds out by itself, and detaches the program.
      static_cast<void>(result_of([&] { call("drop", [this] { end_connection(Ends::kLeft); }); }));
    }
  }
  try {
    close();
  } catch (const Error&) {  // The timeline could not be written, and nobody is left to tell.
  }
}

void Session::warn_of_certificate(const std::optional<Certificate>& own) const {
  if (!own) return;
  const int64_t now_s = notify.home->clock().wall_ns() / 1'000'000'000;
  const std::string ends = end_warning(own->validity.ends_s, now_s);
  if (!ends.empty()) warn_(cat("the certificate of ", to_text(own->name), " ", ends));
}

void Session::open(Network& network, const std::string& address, const ConnectOptions& options,
                   Joins joins) {
  Reactor& reactor = *notify.home;
  warn_ = [options](const std::string& line) { warn_user(options, line); };
  const auto asked_to_stop = [this, options](const StopAsked& asked) {
    if (!asked.controller_ends) stopped_by_ = asked.by;
    controller_ends_ |= asked.controller_ends;
    stop_requested_ = true;
    tell_of_stop(options, asked);
    return options.on_stop || looks_for_stops_;
  };
  fibers_ = std::make_unique<FiberGroup>(reactor);
  connection_ = std::make_shared<ControllerConnection>(
      reactor, network, address,
      ControllerConnection::Options{
          .name = name_of(options),
          .number_name = options.number_name || options.name.empty(),
          .attaches = joins == Joins::kDetached,
          .share = {.weight = options.weight, .priority = options.priority},
          .timeout_ms = options.timeout_ms,
          .token_file = options.token_file,
          .on_warning = warn_,
          .on_gone = [this](const Error& why) { gone_for_good(why); },
          .on_stop = asked_to_stop});
  const ControllerConnection::Granted& granted = connection_->granted();
  id_ = granted.id;
  name_ = granted.name;
  warn_of_certificate(network.certificate());
  address_ = address;
  has_chosen_name_ = !options.name.empty();
  run_credits = granted.run_credits;
  bulk.begin(granted.transfer_credits);
  open_frames();
  if (joins == Joins::kAsNew) return;
  is_attached_ = true;
  const uint64_t last = ask_holdings().last_name;
  names_ = last > base() ? last - base() : 0;
}

void Session::open_frames() {
  const auto direct = std::make_shared<DirectSender>(notify.home->mailbox());
  desk_ = std::make_unique<RunDesk>(direct);
  frames_ = connection_->open_frames();
  frames_->start([this](capnp::MessageReader& reader) { on_message(decode(reader)); });
  frames_->lend_to(direct);
  const std::weak_ptr<ControllerConnection> of = connection_;
  frames_->closed().on_ready([this, of](const Result<void>& result) {
    frames_end_ = result;
    frames_ended(of.lock().get());
  });
}

// The frames of a client that leaves may end before leave() knows how that went.
void Session::frames_ended(ControllerConnection* connection) {
  if (is_leaving_ || !frames_end_) return;
  const Error why(ErrorKind::kUnavailable,
                  cat("client: the controller is gone", frames_end_->ok() ? "" : ": ",
                      frames_end_->ok() ? "" : frames_end_->error().message()),
                  {}, "connect again, and restore state from a checkpoint");
  const Error reported = fail_all(why);
  if (connection != nullptr) connection->give_up(reported);
}

Error Session::closed_error() { return {ErrorKind::kCancelled, "client: closed"}; }

void Session::require_open() const {
  if (closed_) throw closed_error();
}

bool Session::stop_requested() {
  looks_for_stops_ = true;
  return stop_requested_;
}

void Session::close() {
  if (closed_.exchange(true)) return;
  const auto end = [this] {
    send_last_lines();
    end_connection(Ends::kClosed);
    end_cluster();
  };
  if (notify.is_at_home()) {
    notify.home->run(end);
  } else {
    thread_->ask("close", end);
  }
}

void Session::detach() {
  GW_REQUIRE(has_chosen_name_, "detach: expected a program with a name that somebody chose, got \"",
             name_, "\": connect with ConnectOptions::name");
  GW_REQUIRE(!is_local_, "detach: a local cluster ends with its client: expected a client of a ",
             "cluster that goes on");
  call("detach", [this] {
    send_last_lines();
    leave();
    end_cluster();
  });
  closed_ = true;
}

// Calls under way fail. kLeft: the session goes on, and the controller detaches its program.
void Session::end_connection(Ends how) {
  const std::shared_ptr<ControllerConnection> ending = std::exchange(connection_, nullptr);
  if (ending == nullptr) return;
  const Error why = how == Ends::kLeft ? detached_error() : closed_error();
  fail_all(why);
  how == Ends::kLeft ? ending->leave(why) : ending->close(why);
  frames_.reset();
  fibers_->cancel();
}

// Nobody has a handle of the session yet, but it may be that of a program that was there before.
void Session::give_up_opening(Joins joins) {
  end_connection(joins == Joins::kDetached ? Ends::kLeft : Ends::kClosed);
}

// Comes behind all frames that were sent before.
void Session::leave() {
  const std::shared_ptr<ControllerConnection> left = connection();
  const uint64_t behind = mark();
  is_leaving_ = true;
  try {
    left->ask<wire::Session::DetachResults>([&](auto& session) {
      auto request = session.detachRequest();
      request.setReleases(behind);
      return request.send();
    });
  } catch (const Error&) {
    is_leaving_ = false;
    frames_ended(left.get());
    throw;
  }
  end_connection(Ends::kLeft);
}

void Session::end_cluster() {
  bulk.end();
  std::vector<std::string> traces;
  if (cluster_ != nullptr) traces = cluster_->stop();
  cluster_.reset();
  const std::unique_ptr<Timeline> timeline = std::move(timeline_);
  if (timeline != nullptr) timeline->write(std::move(traces));
}

void Session::gone_for_good(const Error& why) {
  fail_all(why);
  if (frames_ != nullptr) frames_->close();
}

// Returns the error with which all fails, which is the first one that was given.
Error Session::fail_all(const Error& why) {
  if (gone_) return *gone_;
  gone_ = why;
  if (controller_ends_ && why.kind() == ErrorKind::kUnavailable)
    gone_ = Error(ErrorKind::kUnavailable, "client: the controller is gone: it was told to end", {},
                  "connect again once it is back, and restore state from a checkpoint");
  if (stopped_by_ && why.kind() == ErrorKind::kUnavailable)
    gone_ = Error(ErrorKind::kCancelled,
                  cat("client: its program was ended: ", *stopped_by_, " asked it to stop"));
  for (auto& [run, done] : desk_->close()) done({.run = run, .error = gone_});
  for (auto& [request, done] : std::exchange(transfers_, {})) done({.error = gone_});
  for (auto& [number, reading] : std::exchange(readings_, {})) reading.done({.error = gone_});
  return *gone_;
}

// None: it goes on.
std::optional<Error> Session::why_ended() const {
  return connection_ == nullptr ? closed_error() : gone_;
}

std::shared_ptr<ControllerConnection> Session::connection() const {
  if (connection_ == nullptr) throw closed_error();
  return connection_;
}

void Session::post(std::function<void()> body) {
  if (notify.is_at_home()) return body();
  posted_.fetch_add(1, std::memory_order_relaxed);
  thread_->mailbox().post([this, body = std::move(body)] {
    body();
    posted_.fetch_sub(1, std::memory_order_release);
  });
}

// Whether the reactor has done all that this thread has posted.
bool Session::may_pass_reactor() const {
  return !notify.is_at_home() && posted_.load(std::memory_order_acquire) == 0;
}

std::shared_ptr<SliceImpl> Session::held_slice(const HeldSlice& held) {
  std::weak_ptr<SliceImpl>& known = held_slices_[held.id];
  std::shared_ptr<SliceImpl> slice = known.lock();
  if (slice == nullptr) {
    slice = std::make_shared<SliceImpl>(shared_from_this(), held);
    known = slice;
  }
  return slice;
}

std::vector<std::shared_ptr<SliceImpl>> Session::held_slices() { return slices_of(holdings()); }

std::vector<std::shared_ptr<SliceImpl>> Session::slices_of(const HeldByProgram& all) {
  const std::lock_guard lock(held_mutex_);
  std::vector<std::shared_ptr<SliceImpl>> slices;
  std::map<uint64_t, SliceImpl*> by_id;
  for (const HeldSlice& held : all.slices) {
    slices.push_back(held_slice(held));
    by_id[held.id] = slices.back().get();
  }
  for (const HeldExecutable& executable : all.executables) {
    const auto first = by_id.find(executable.slices.at(0));
    if (first != by_id.end()) first->second->note_states(executable.plan, executable.program);
  }
  return slices;
}

std::shared_ptr<ExecutableImpl> Session::held_executable(const std::string& name) {
  HeldByProgram all = holdings();
  const std::vector<std::shared_ptr<SliceImpl>> slices = slices_of(all);
  std::string names;
  for (HeldExecutable& held : all.executables) {
    names += cat(names.empty() ? "" : ", ", held.name);
    if (held.name != name) continue;
    const std::lock_guard lock(held_mutex_);
    std::weak_ptr<ExecutableImpl>& known = held_executables_[held.plan.plan];
    if (auto executable = known.lock()) return executable;
    auto executable = std::make_shared<ExecutableImpl>();
    executable->session = shared_from_this();
    executable->is_held = true;
    for (const uint64_t id : held.slices) {
      for (const auto& slice : slices) {
        if (slice->id == id) executable->slices.push_back(slice);
      }
    }
    GW_REQUIRE(executable->slices.size() == held.slices.size(), "executable \"", name,
               "\": the slices that it was compiled on are freed");
    executable->program = std::move(held.program);
    executable->plan = std::move(held.plan);
    executable->runs_in_flight_max = held.runs_in_flight_max;
    executable->position = held.position;
    begin_first_chain(*executable);
    known = executable;
    return executable;
  }
  throw Error(ErrorKind::kInvalid,
              cat("executable \"", name, "\": the program has none of the name; ",
                  "there are: ", names.empty() ? "none" : names));
}

void Session::release_slice(uint64_t slice) {
  post([this, slice] {
    if (const auto node = slices_.extract(slice); !node.empty()) release_call(node.mapped());
  });
}

void Session::release_plan(PlanId plan) {
  post([this, plan] {
    if (const auto node = plans_.extract(plan); !node.empty()) release_call(node.mapped());
  });
}

void Session::send_run(RunFrame frame, RunDone done, bool is_only_one) {
  if (is_only_one && may_pass_reactor() && desk_->send(frame, done)) return;
  post([this, frame = std::move(frame), done = std::move(done)]() mutable {
    TraceSpan span("send run", frame.run.value);
    if (const auto why = why_ended()) return done({.run = frame.run, .error = why});
    desk_->add(frame.run, std::move(done));
    send(frame);
  });
}

void Session::release(ArrayId array) {
  if (may_pass_reactor() && desk_->release(array)) return;
  free(array);
}

// Arrays that are released together make one frame, for the controller and for all hosts. It leaves
// before the next frame, or as soon as the reactor has done what it was asked to do meanwhile.
void Session::free(ArrayId array) {
  post([this, array] {
    if (connection_ == nullptr) return;
    freed_.push_back(array);
    if (freed_.size() == 1) fibers_->spawn("free arrays", [this] { send_freed(); });
  });
}

void Session::cancel(RunId run, const Error& why) {
  post([this, run, why] { send(CancelFrame{run, why}); });
}

void Session::transfer(HostTransferFrame frame, TransferDone done) {
  post([this, frame = std::move(frame), done = std::move(done)]() mutable {
    if (const auto why = why_ended()) return done({.error = why, .is_settled = true});
    frame.request = ++last_request_;
    transfers_.emplace(frame.request, std::move(done));
    send(frame);
  });
}

void Session::on_message(Message message) {
  if (auto* done = std::get_if<RunDoneFrame>(&message)) {
    TraceSpan span("run done", done->run.value);
    if (frames_->lends()) look_for_released();
    if (const RunDone end = desk_->take(done->run)) end(std::move(*done));
  } else if (auto* copied = std::get_if<HostTransferDoneFrame>(&message)) {
    auto node = transfers_.extract(copied->request);
    if (!node.empty()) node.mapped()(*copied);
  } else if (const auto* warning = std::get_if<WarningFrame>(&message)) {
    warn_(warning->text);
  } else {
    throw Error(ErrorKind::kInvalid,
                "frame: the controller sent a kind of frame that is not its "
                "to send to a client");
  }
}

void Session::send(const Message& message) {
  send_freed();
  if (!gone_) frames_->send(encode(message));
}

void Session::send_freed() {
  const std::vector<ArrayId> released = desk_->take_released();
  freed_.insert(freed_.end(), released.begin(), released.end());
  if (freed_.empty()) return;
  const FreeFrame frame{std::exchange(freed_, {})};
  if (!gone_) frames_->send(encode(frame));
}

// Runs that follow one another take along the arrays released between them; those released after
// the last run are reported a little later. Nobody wakes the reactor for it.
void Session::look_for_released() {
  if (!desk_->begin_to_look()) return;
  fibers_->spawn("look for released arrays", [this] {
    constexpr int64_t kLookNs = 1'000'000;
    do {
      WaitQueue().wait_until_ns("for released arrays", notify.home->clock().now_ns() + kLookNs);
      send_freed();
    } while (!desk_->may_end_to_look());
  });
}

// A call that says it comes behind so many releases comes behind all frames sent so far.
uint64_t Session::mark() {
  send(ReleaseFrame{});
  return ++releases_;
}

// Comes behind the runs that were sent before, and before the calls that are asked from now on.
void Session::release_call(uint64_t call) {
  ++releases_;
  send(ReleaseFrame{{call}});
}

}  // namespace gangway::internal
