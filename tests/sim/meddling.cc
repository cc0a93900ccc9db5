#include "tests/sim/meddling.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/frames.h"
#include "sim/sim_cluster.h"

namespace gangway {
namespace {

bool is_host(const std::string& name) { return name.starts_with("host-"); }
bool is_client(const std::string& name) { return name.starts_with("client-"); }

// `change` returns what arrives in place of a message; none: the message itself.
using Instead = std::optional<std::vector<Message>>;
template <class Change>
FrameMeddler meddler(Change change) {
  return FrameMeddler([change = std::move(change)](const std::string& from, const std::string& to,
                                                   const Frame& frame) mutable {
    const Instead instead = change(from, to, decode(frame));
    if (!instead) return std::vector<Frame>{frame};
    std::vector<Frame> frames;
    for (const Message& message : *instead) frames.push_back(encode(message));
    return frames;
  });
}

// Changes the ends of runs as clients are told them.
template <class Change>
FrameMeddler meddler_of_ends(Change change) {
  return meddler([change = std::move(change)](const std::string&, const std::string& to,
                                              Message message) mutable -> Instead {
    auto* const done = std::get_if<RunDoneFrame>(&message);
    if (done == nullptr || !is_client(to) || !change(*done)) return std::nullopt;
    return Instead({std::move(message)});
  });
}

}  // namespace

FrameMeddler leaves_out_a_prepare() {
  constexpr int kTenth = 10;
  return meddler([count = 0](const std::string&, const std::string&,
                             const Message& message) mutable -> Instead {
    if (!std::holds_alternative<PrepareFrame>(message) || ++count != kTenth) return std::nullopt;
    return Instead(std::in_place);
  });
}

FrameMeddler changes_a_second_output() {
  return meddler_of_ends([is_done = false](RunDoneFrame& done) mutable {
    const auto second = std::ranges::find(done.outputs, 1u, &SmallOutput::output);
    if (is_done || done.error || second == done.outputs.end()) return false;
    second->bytes[0] ^= std::byte{1};
    return is_done = true;
  });
}

FrameMeddler tells_outputs_of_the_run_before() {
  std::vector<SmallOutput> before;
  return meddler_of_ends([before, is_done = false](RunDoneFrame& done) mutable {
    if (is_done || done.error || done.outputs.empty()) return false;
    std::swap(before, done.outputs);
    if (before.size() == done.outputs.size()) return is_done = true;
    done.outputs = before;
    return false;
  });
}

FrameMeddler tells_that_a_run_has_failed() {
  constexpr int kThird = 3;
  return meddler_of_ends([count = 0](RunDoneFrame& done) mutable {
    if (done.error || ++count != kThird) return false;
    done.error = Error(ErrorKind::kLost, "somebody says so");
    done.outputs.clear();
    return true;
  });
}

FrameMeddler keeps_plans() {
  return meddler([](const std::string&, const std::string&, const Message& message) -> Instead {
    if (!std::holds_alternative<UninstallFrame>(message)) return std::nullopt;
    return Instead(std::in_place);
  });
}

FrameMeddler hides_ends_of_late_runs() {
  std::set<RunId> late;
  return meddler([late](const std::string& from, const std::string&,
                        const Message& message) mutable -> Instead {
    if (const auto* cancel = std::get_if<CancelFrame>(&message)) {
      if (cancel->error.message().find("not done within its limit") != std::string::npos)
        late.insert(cancel->run);
      return std::nullopt;
    }
    const auto* done = std::get_if<RunDoneFrame>(&message);
    if (done == nullptr || !is_host(from) || !late.contains(done->run)) return std::nullopt;
    return Instead(std::in_place);
  });
}

FrameMeddler takes_one_run_for_another() {
  std::map<std::string, std::map<RunId, PlanId>> open;  // Key: a host.
  return meddler(
      [open](const std::string& from, const std::string& to, Message message) mutable -> Instead {
        if (const auto* prepare = std::get_if<PrepareFrame>(&message))
          open[to].emplace(prepare->run.run, prepare->run.plan);
        auto* const done = std::get_if<RunDoneFrame>(&message);
        if (done == nullptr || !is_host(from)) return std::nullopt;
        const auto ended = open[from].extract(done->run);
        if (!ended || !done->error || done->error->kind() == ErrorKind::kCancelled)
          return std::nullopt;
        const auto other = std::ranges::find_if(
            open[from], [&](const auto& one) { return one.second != ended.mapped(); });
        if (other == open[from].end()) return std::nullopt;
        done->run = other->first;
        done->times.clear();
        return Instead({std::move(message)});
      });
}

FrameMeddler swaps_tickets() {
  return meddler([](const std::string&, const std::string&, Message message) -> Instead {
    auto* const grant = std::get_if<GrantFrame>(&message);
    if (grant == nullptr) return std::nullopt;
    const auto first =
        std::ranges::adjacent_find(grant->ranges, std::ranges::not_equal_to(), &GrantRange::ticket);
    if (first == grant->ranges.end()) return std::nullopt;
    std::swap(first->ticket, std::next(first)->ticket);
    return Instead({std::move(message)});
  });
}

FrameMeddler crosses_grants(const std::string& host) {
  std::map<RunId, PlanId> plans;
  std::optional<GrantFrame> held;
  return meddler([host, plans, held](const std::string&, const std::string& to,
                                     Message message) mutable -> Instead {
    if (to != host) return std::nullopt;
    if (const auto* prepare = std::get_if<PrepareFrame>(&message))
      plans[prepare->run.run] = prepare->run.plan;
    auto* const grant = std::get_if<GrantFrame>(&message);
    const bool is_ticketed = grant != nullptr || std::holds_alternative<HostTransferFrame>(message);
    if (!is_ticketed) return std::nullopt;
    const auto shares_a_plan = [&](const GrantFrame& one, const GrantFrame& other) {
      return std::ranges::any_of(one.ranges, [&](const GrantRange& range) {
        return std::ranges::any_of(other.ranges, [&](const GrantRange& with) {
          return plans[range.run] == plans[with.run];
        });
      });
    };
    if (grant != nullptr && !held) {
      held = std::move(*grant);
      return Instead(std::in_place);
    }
    if (!held) return std::nullopt;
    GrantFrame first = *std::exchange(held, std::nullopt);
    if (grant == nullptr || shares_a_plan(first, *grant)) return Instead({first, message});
    // A range takes a ticket for each of its positions.
    uint64_t next = first.ranges.at(0).ticket.value;
    for (GrantFrame* one : {grant, &first}) {
      for (GrantRange& range : one->ranges)
        range.ticket = Ticket(std::exchange(next, next + range.count));
    }
    return Instead({std::move(*grant), std::move(first)});
  });
}

FrameMeddler holds_prepares_back() {
  std::map<std::string, std::map<RunId, Message>> held;  // Key: a host.
  return meddler(
      [held](const std::string&, const std::string& to, const Message& message) mutable -> Instead {
        if (const auto* prepare = std::get_if<PrepareFrame>(&message)) {
          held[to].insert_or_assign(prepare->run.run, message);
          return Instead(std::in_place);
        }
        const auto* grant = std::get_if<GrantFrame>(&message);
        if (grant == nullptr) return std::nullopt;
        Instead instead(std::in_place);
        for (const GrantRange& range : grant->ranges) {
          if (auto prepare = held[to].extract(range.run))
            instead->push_back(std::move(prepare.mapped()));
        }
        instead->push_back(message);
        return instead;
      });
}

FrameMeddler frees_before_a_read() {
  return meddler([is_done = false](const std::string&, const std::string&,
                                   const Message& message) mutable -> Instead {
    const auto* prepare = std::get_if<PrepareFrame>(&message);
    if (prepare == nullptr || is_done) return std::nullopt;
    const auto read = std::ranges::find_if(
        prepare->run.arguments, [](const ArgumentFrame& one) { return one.bytes.empty(); });
    if (read == prepare->run.arguments.end()) return std::nullopt;
    is_done = true;
    return Instead({FreeFrame{{read->array}}, message});
  });
}

FrameMeddler tells_that_copies_are_settled() {
  return meddler([](const std::string&, const std::string&, Message message) -> Instead {
    auto* const done = std::get_if<HostTransferDoneFrame>(&message);
    if (done == nullptr || !done->error) return std::nullopt;
    done->is_settled = true;
    return Instead({std::move(message)});
  });
}

FrameMeddler hides_acknowledgements() {
  FrameMeddler silent;
  silent.hide_acknowledgements();
  return silent;
}

}  // namespace gangway
