// Hosts for tests: the hosts of several executors in one process, driven as a controller would
// drive them. Their events are collected.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "executor/host/host.h"
#include "executor/links/sim_fabric.h"
#include "ir/plan/positions.h"
#include "runtime/fibers/reactor.h"
#include "runtime/observe/trace.h"
#include "tests/support/order_check.h"

namespace gangway {

struct Done {
  std::optional<Error> error;
  bool is_origin = false;
  bool refused = false;
};

class EventLog final : public HostEvents {
 public:
  void run_done(RunDoneFrame ended) override {
    for (SmallOutput& output : ended.outputs)
      small[{ended.run, output.output}] = std::move(output.bytes);
    reported.insert(reported.end(), ended.times.begin(), ended.times.end());
    done[ended.run] = {std::move(ended.error), ended.is_origin, ended.refused};
    ++ended_runs;
  }
  void transfer_done(HostTransferDoneFrame ended) override {
    transfers[ended.request] = {std::move(ended.error), false};
  }

  std::map<RunId, Done> done;
  std::map<std::pair<RunId, uint32_t>, std::vector<std::byte>> small;
  void progress(ProgressFrame news) override {
    reported.insert(reported.end(), news.times.begin(), news.times.end());
  }

  std::map<uint64_t, Done> transfers;
  std::vector<SectionTime> reported;
  uint64_t ended_runs = 0;
};

// kNo: the order of devices' steps is neither logged nor checked. Benchmarks choose it, since the
// check costs more than the work itself.
enum class OrderChecked { kYes, kNo };

class TestHosts {
 public:
  TestHosts(Reactor& reactor, uint32_t count, uint32_t devices, DeviceKind kind = DeviceKind::kCpu,
            Tracer* tracer = nullptr, int64_t memory_bytes = int64_t{64} << 20,
            const std::vector<std::vector<std::shared_ptr<cuda::Driver>>>& gpus = {},
            OrderChecked checked = OrderChecked::kYes)
      : reactor_(reactor),
        fabric_(reactor.simulated() ? std::make_shared<SimFabric>(reactor)
                                    : std::make_shared<SimFabric>()) {
    if (checked == OrderChecked::kYes) order_ = std::make_shared<OrderLog>();
    const std::vector<std::shared_ptr<cuda::Driver>> no_gpus;
    for (uint32_t h = 0; h < count; ++h) {
      logs.push_back(std::make_unique<EventLog>());
      hosts.push_back(std::make_unique<Host>(reactor_,
                                             HostOptions{.name = "host-" + std::to_string(h),
                                                         .kind = kind,
                                                         .devices = static_cast<int>(devices),
                                                         .memory_bytes = memory_bytes,
                                                         .threads = 1,
                                                         .tracer = tracer,
                                                         .order_log = order_,
                                                         .gpus = gpus.empty() ? no_gpus : gpus[h],
                                                         .fabric = fabric_},
                                             *logs.back()));
    }
  }

  ~TestHosts() {
    hosts.clear();  // Stops the devices.
    if (order_ != nullptr) {
      EXPECT_EQ(broken_order(*order_), "");
    }
  }

  std::vector<Installed> install(PlanId id, std::shared_ptr<const Plan> plan,
                                 StateScope scope = {1}) {
    will_start(id, plan);
    std::vector<Installed> installed;
    std::vector<Future<Installed>> compiled;
    for (uint32_t h = 0; h < hosts.size(); ++h)
      compiled.push_back(hosts[h]->install(id, plan, h, scope));
    for (Future<Installed>& one : compiled) installed.push_back(one.take());
    for (uint32_t h = 0; h < hosts.size(); ++h) {
      std::vector<LinkOffer> offers;
      for (const uint32_t peer : installed[h].writes_to)
        offers.insert(offers.end(), installed[peer].offers.begin(), installed[peer].offers.end());
      hosts[h]->link(id, offers);
    }
    for (auto& host : hosts) host->commit_install(id).await();
    return installed;
  }

  // Call this before runs of a plan that the test installs itself.
  void will_start(PlanId id, std::shared_ptr<const Plan> plan) {
    positions_[id] = Positions(*plan).total();
    plans_[id] = std::move(plan);
    for (size_t h = 0; h < hosts.size(); ++h) prepared_.erase({h, id});
  }
  // Starts the run on all hosts, and grants all its positions.
  void start(const RunFrame& request) {
    for (size_t host = 0; host < hosts.size(); ++host) start_on(host, request);
  }
  // Waits, as a controller does, until the host has room for one more run.
  void start_on(size_t host, const RunFrame& request) {
    const auto room = static_cast<uint64_t>(plans_.at(request.plan)->runs_in_flight_max);
    reactor_.run_until([&] { return started_[host] < logs[host]->ended_runs + room; });
    ++started_[host];
    hosts[host]->prepare({prepared_[{host, request.plan}]++, request});
    hosts[host]->grant(grant_of(request));
  }
  // Grants all positions of the run, with the same tickets for every host.
  const GrantFrame& grant_of(const RunFrame& request) {
    if (grants_.size() > 256) grants_.erase(grants_.begin());
    const auto [grant, is_new] = grants_.try_emplace({request.plan, request.run});
    if (!is_new) return grant->second;
    const uint32_t positions = positions_.at(request.plan);
    grant->second.ranges = {
        {.run = request.run,
         .slice = kEverySlice,
         .count = positions,
         .ticket = Ticket(std::exchange(next_ticket_, next_ticket_ + positions))}};
    return grant->second;
  }

  Done wait(RunId run) {
    reactor_.run_until([&] {
      for (auto& log : logs) {
        if (!log->done.contains(run)) return false;
      }
      return true;
    });
    Done result = logs[0]->done[run];
    for (auto& log : logs) {
      if (log->done[run].is_origin) result = log->done[run];
    }
    return result;
  }

  template <class T>
  T item(RunId run, uint32_t output) {
    for (auto& log : logs) {
      auto found = log->small.find({run, output});
      if (found == log->small.end()) continue;
      T value;
      std::memcpy(&value, found->second.data(), sizeof value);
      return value;
    }
    return T{-12345};
  }

  template <class T>
  std::vector<T> read_state(const std::string& name, size_t elements, StateScope scope = {1}) {
    const Ticket ticket(next_ticket_++);
    return read<T>(elements, [&](Host& host, uint64_t request, const ClientBytes& to) {
      host.take_ticket(ticket);
      host.read_state(request, scope, name, to, ticket);
    });
  }
  template <class T>
  std::vector<T> get(ArrayId array, size_t elements) {
    return read<T>(elements, [&](Host& host, uint64_t request, const ClientBytes& to) {
      host.get(request, array, to);
    });
  }
  template <class T>
  void put(ArrayId array, PlanId like, uint32_t input, const std::vector<T>& values) {
    SharedSegment segment = client_segment(values);
    move_bytes(segment, values.size() * sizeof(T),
               [&](Host& host, uint64_t request, const ClientBytes& from) {
                 host.put(request, array, like, input, from);
               });
  }
  template <class T>
  void write_state(const std::string& name, const std::vector<T>& values, StateScope scope = {1}) {
    const Ticket ticket(next_ticket_++);
    SharedSegment segment = client_segment(values);
    move_bytes(segment, values.size() * sizeof(T),
               [&](Host& host, uint64_t request, const ClientBytes& from) {
                 host.take_ticket(ticket);
                 host.write_state(request, scope, name, from, ticket);
               });
  }

  std::vector<std::unique_ptr<EventLog>> logs;
  std::vector<std::unique_ptr<Host>> hosts;
  std::optional<Error> transfer_error;

 private:
  template <class T>
  SharedSegment client_segment(const std::vector<T>& values) {
    SharedSegment segment = SharedSegment::create(std::max<size_t>(64, values.size() * sizeof(T)));
    if (!values.empty()) std::memcpy(segment.data(), values.data(), values.size() * sizeof(T));
    return segment;
  }
  template <class Call>
  void move_bytes(const SharedSegment& segment, size_t bytes, Call call) {
    const uint64_t request = ++requests_;
    transfer_error.reset();
    for (auto& host : hosts)
      call(*host, request, ClientBytes{segment.descriptor(), 0, static_cast<int64_t>(bytes)});
    reactor_.run_until([&] {
      for (auto& log : logs) {
        if (!log->transfers.contains(request)) return false;
      }
      return true;
    });
    for (auto& log : logs) {
      if (log->transfers[request].error) transfer_error = log->transfers[request].error;
    }
  }
  template <class T, class Call>
  std::vector<T> read(size_t elements, Call call) {
    std::vector<T> values(elements);
    SharedSegment segment = client_segment(values);
    move_bytes(segment, elements * sizeof(T), call);
    if (elements > 0) std::memcpy(values.data(), segment.data(), elements * sizeof(T));
    return values;
  }

  Reactor& reactor_;
  std::shared_ptr<SimFabric> fabric_;
  std::shared_ptr<OrderLog> order_;  // Null: the order is not checked.
  uint64_t requests_ = 0;
  // Runs that a host has prepared of a plan, and runs that it has started.
  std::map<std::pair<size_t, PlanId>, uint64_t> prepared_;
  std::map<size_t, uint64_t> started_;
  std::map<PlanId, std::shared_ptr<const Plan>> plans_;
  std::map<PlanId, uint32_t> positions_;  // Number of positions.
  std::map<std::pair<PlanId, RunId>, GrantFrame> grants_;
  uint64_t next_ticket_ = 1;
};

}  // namespace gangway
