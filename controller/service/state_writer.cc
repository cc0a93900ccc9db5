#include "controller/service/state_writer.h"

#include <time.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

using Line = nlohmann::ordered_json;

constexpr int64_t kTryAgainNs = 10'000'000'000;

// "2026-11-23T02:14:05.123Z"
std::string time_text(int64_t wall_ns) {
  const time_t seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof(text), "%s.%03dZ", date, static_cast<int>(wall_ns / 1'000'000 % 1000));
  return text;
}

std::string line_of(const Line& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

StateWriter::StateWriter(Reactor& reactor, Controller& controller, StateDir& state, Logger log)
    : reactor_(reactor),
      controller_(controller),
      state_(state),
      log_(std::move(log)),
      background_(reactor, "state folder", 1) {
  for (const StateDir::SetAside& file : state_.set_aside()) {
    log_.error(
        "a file of the state folder can't be read and is set aside: what it holds is not "
        "brought back",
        {{"file", file.was.string()}, {"now", file.is.string()}, {"why", file.why}});
  }
  HostNames& names = controller_.tables().hosts.names();
  for (const KeptHost& host : state_.hosts())
    names.restore(host.name, host.owner, reactor_.clock().now_ns());
  names.on_change([this] {
    are_hosts_changed_ = true;
    changed_.wake_all();
  });
  controller_.programs().on_program([this](const ProgramEvent& event) { on_program(event); });
  controller_.programs().on_record([this](SessionId session) {
    if (held_programs_.contains(session)) return;
    changed_programs_.insert(session);
    changed_.wake_all();
  });
  // Readers of the file know by this line that programs which began before it, and have no end,
  // ended with the controller before this one.
  add_line(
      line_of({{"time", time_text(reactor_.clock().wall_ns())}, {"event", "controller began"}}));
  fiber_ = reactor_.spawn("state folder", [this] { serve(); });
}

StateWriter::~StateWriter() {
  leave_programs();
  controller_.programs().on_program(nullptr);
  controller_.tables().hosts.names().on_change(nullptr);
  is_closing_ = true;
  changed_.wake_all();
  // The loop goes on if the caller is cancelled meanwhile.
  while (!fiber_.done()) static_cast<void>(result_of([this] { fiber_.join(); }));
}

void StateWriter::hold(SessionId session, const std::string& owner, const std::string& name) {
  for (const auto& [other, of] : files_) {
    if (of.owner == owner && of.name == name) held_programs_.erase(other);
  }
  std::erase_if(files_, [&](const auto& file) {
    return file.second.owner == owner && file.second.name == name;
  });
  held_programs_.insert(session);
  files_.insert_or_assign(session, ProgramName{owner, name});
}

void StateWriter::follow(SessionId session) {
  if (held_programs_.erase(session) == 0) return;
  changed_programs_.insert(session);
  changed_.wake_all();
}

void StateWriter::leave_programs() {
  if (std::exchange(is_leaving_, true)) return;
  controller_.programs().on_record(nullptr);
  // Records are taken now, since the sessions are closed before all is written.
  for (const SessionId id : changed_programs_)
    last_records_.emplace(id, controller_.programs().record_of(id));
}

void StateWriter::on_program(const ProgramEvent& event) {
  Line line = {{"time", time_text(reactor_.clock().wall_ns())},
               {"event", event.has_ended ? "ended" : "began"},
               {"owner", event.owner},
               {"program", event.name},
               {"client", event.id.value}};
  if (event.has_ended) {
    line["why"] = event.why;
    line["runs"] = event.runs_done;
  }
  add_line(line_of(line));
}

void StateWriter::add_line(std::string line) {
  if (line_count_ >= kLinesMax) {
    ++dropped_;
    return;
  }
  lines_ += line;
  ++line_count_;
  changed_.wake_all();
}

void StateWriter::serve() {
  while (true) {
    while (!is_closing_ && !has_news()) changed_.wait("for something to keep");
    if (!has_news()) return;
    const Result<void> written = result_of([this] { write_once(); });
    if (written.ok()) continue;
    log_.error("the state folder can't be written",
               {{"folder", state_.folder().string()}, {"why", written.error().message()}});
    if (is_closing_) return;
    const int64_t again_ns = reactor_.clock().now_ns() + kTryAgainNs;
    while (!is_closing_ && changed_.wait_until_ns("for the disk", again_ns)) {
    }
  }
}

void StateWriter::write_once() {
  if (dropped_ > 0)
    log_.error("lines about programs were dropped", {{"lines", std::exchange(dropped_, 0)}});
  if (line_count_ > 0) {
    const size_t count = line_count_, bytes = lines_.size();
    background_.run([state = &state_, lines = lines_] { state->append_to_programs(lines); });
    lines_.erase(0, bytes);
    line_count_ -= count;
  }
  write_programs();
  if (!are_hosts_changed_) return;
  std::vector<KeptHost> hosts;
  for (const auto& [name, host] : controller_.tables().hosts.names().all())
    hosts.push_back({name, host.owner});
  are_hosts_changed_ = false;
  const Result<void> written = result_of([&] {
    background_.run([state = &state_, hosts = std::move(hosts)] { state->write_hosts(hosts); });
  });
  if (written.ok()) return;
  are_hosts_changed_ = true;
  throw Error(written.error());
}

void StateWriter::write_programs() {
  while (!changed_programs_.empty()) {
    const SessionId id = *changed_programs_.begin();
    changed_programs_.erase(id);
    const auto last = last_records_.find(id);
    if (is_leaving_ && last == last_records_.end()) continue;
    std::optional<ProgramRecord> record =
        is_leaving_ ? last->second : controller_.programs().record_of(id);
    if (!record && !files_.contains(id)) continue;
    if (record) files_.insert_or_assign(id, ProgramName{record->owner, record->name});
    const ProgramName of = files_.at(id);
    const Result<std::optional<Error>> written =
        result_of([&] { return write_program(of, std::move(record)); });
    if (!written.ok()) {
      changed_programs_.insert(id);
      throw Error(written.error());
    }
    if (const std::optional<Error>& why = written.value()) {
      log_.error("a program can't be kept over a restart",
                 {{"program", of.name}, {"owner", of.owner}, {"why", why->message()}});
    }
    if (controller_.programs().find(id) == nullptr) files_.erase(id);
  }
}

// Returns why the program can have no record. None: it has one, or needs none.
std::optional<Error> StateWriter::write_program(const ProgramName& of,
                                                std::optional<ProgramRecord> record) {
  return background_.run([state = &state_, of, record = std::move(record)] {
    std::optional<Error> why;
    if (record) {
      const Result<std::string> text = result_of([&] { return print_record(*record); });
      if (text.ok()) {
        state->write_program(of.owner, of.name, text.value());
        return why;
      }
      why = text.error();
    }
    state->remove_program(of.owner, of.name);
    return why;
  });
}

}  // namespace gangway
