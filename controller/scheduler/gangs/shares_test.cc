// The gang scheduler over a modelled cluster in virtual time: devices that do the lowest ticket
// that can go on, and whose hosts report what has ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>

#include "controller/scheduler/gangs/gang_scheduler.h"
#include "tests/support/seed.h"

namespace gangway::shares_test {
namespace {

constexpr int64_t kUs = 1000, kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr int64_t kLatencyNs = 50 * kUs;  // Of a message between controller and host.

// Of one program: what each device was busy with, as (from, until).
using Busy = std::vector<std::pair<int64_t, int64_t>>;

class ModelCluster {
 public:
  explicit ModelCluster(const std::string& policy, bool is_ordered = true)
      : scheduler_(make_policy(policy), [this](auto ranges) { deliver(std::move(ranges)); }),
        is_ordered_(is_ordered) {
    if (!is_ordered_) random_.seed(tests::test_seed());
  }

  // A client that has `ahead` runs of one plan submitted at all times. `ns`: what the positions
  // take; the model believes that they take `model` times as long.
  struct Client {
    Share share;
    GangPlan plan;
    int64_t ahead = 8;
    double model = 1;
    int64_t first_ns = 0;     // When it comes.
    int64_t think_ns = 0;     // Between the end of a run and the next.
    std::set<uint32_t> meet;  // Positions of slice 0 that are collectives.
  };
  uint64_t add(Client client) {
    const uint64_t id = clients_.size() + 1;
    client.plan.program = SessionId(id);
    client.plan.scope = id;
    ns_[id].clear();
    for (GangPlan::Slice& slice : client.plan.slices) {
      ns_[id].push_back(slice.modelled_ns);
      for (int64_t& ns : slice.modelled_ns) {
        ns = ns == 0 ? 0
                     : std::max<int64_t>(1, std::llround(static_cast<double>(ns) * client.model));
      }
      for (DeviceRef device : slice.devices) devices_.try_emplace(device);
    }
    clients_[id] = client;
    clients_done_[id] = 0;
    at(client.first_ns, [this, id] {
      const Client& comes = clients_.at(id);
      scheduler_.set_share(SessionId(id), comes.share);
      scheduler_.add_plan(PlanId(id), comes.plan);
    });
    at(client.first_ns + 1, [this, id] {
      const Client& comes = clients_.at(id);
      for (int64_t i = 0; i < comes.ahead; ++i) submit(id);
      scheduler_.pump(now_);
    });
    return id;
  }

  void run_until(int64_t until_ns) {
    while (!events_.empty() && events_.begin()->first <= until_ns) {
      auto event = events_.extract(events_.begin());
      now_ = event.key();
      event.mapped()();
    }
    now_ = until_ns;
  }

  // Of a device's time between the two.
  double share(uint64_t client, int64_t from, int64_t until, DeviceRef device = {HostId(0), 0}) {
    return static_cast<double>(busy_ns(client, from, until, device)) /
           static_cast<double>(until - from);
  }
  int64_t busy_ns(uint64_t client, int64_t from, int64_t until, DeviceRef device = {HostId(0), 0}) {
    int64_t sum = 0;
    for (const auto& [begin, end] : devices_.at(device).busy[client]) {
      sum += std::max<int64_t>(0, std::min(end, until) - std::max(begin, from));
    }
    return sum;
  }
  double utilisation(int64_t from, int64_t until) {
    double sum = 0;
    for (const auto& [id, client] : clients_) sum += share(id, from, until);
    return sum;
  }
  int64_t done(uint64_t client) const { return clients_done_.at(client); }
  int64_t longest_wait_ns(uint64_t client) const { return longest_wait_.at(client); }
  uint64_t frames() const { return frames_; }
  GangScheduler& scheduler() { return scheduler_; }
  int64_t now() const { return now_; }

 private:
  struct Piece {
    RunId run;
    uint32_t slice = 0, position = 0;
  };
  struct Device {
    bool is_busy = false;
    std::multimap<uint64_t, Piece> granted;  // By ticket.
    std::map<uint64_t, Busy> busy;           // By client.
  };
  struct RunModel {
    uint64_t client = 0;
    int64_t submitted_ns = 0;
    // By slice and mesh device: positions that ended. By slice and position: who has come.
    std::vector<std::vector<uint32_t>> ended;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> came;
    std::map<uint32_t, uint64_t> last_ticket;  // By slice.
    bool began = false;
  };

  void at(int64_t when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  void submit(uint64_t client) {
    const RunId id(++last_run_);
    RunModel& run = runs_[id];
    run.client = client;
    run.submitted_ns = now_;
    for (const GangPlan::Slice& slice : clients_.at(client).plan.slices) {
      run.ended.emplace_back(slice.devices.size(), 0);
    }
    scheduler_.submit(id, PlanId(client));
    scheduler_.prepared(id);
  }

  void deliver(std::vector<GrantRange> ranges) {
    ++frames_;
    at(now_ + kLatencyNs, [this, ranges = std::move(ranges)] {
      std::set<DeviceRef> woken;
      for (const GrantRange& range : ranges) enqueue(range, woken);
      for (DeviceRef device : woken) start_next(device);
    });
  }

  void enqueue(const GrantRange& range, std::set<DeviceRef>& woken) {
    const GangPlan& plan = clients_.at(runs_.at(range.run).client).plan;
    if (range.slice == kEverySlice) {
      EXPECT_EQ(plan.slices.size(), 1u) << "the model does not know the order of nodes";
    }
    const uint32_t slice = range.slice == kEverySlice ? 0 : range.slice;
    uint64_t& last_ticket = runs_.at(range.run).last_ticket[slice];
    EXPECT_GT(range.ticket.value, last_ticket);
    last_ticket = range.ticket.value + range.count - 1;
    for (DeviceRef device : plan.slices[slice].devices) {
      woken.insert(device);
      for (uint32_t i = 0; i < range.count; ++i) {
        const uint64_t ticket = is_ordered_ ? range.ticket.value + i : random_();
        devices_.at(device).granted.emplace(ticket, Piece{range.run, slice, range.first + i});
      }
    }
  }

  uint32_t index_of(const Piece& piece, DeviceRef device) {
    const auto& devices = clients_.at(runs_.at(piece.run).client).plan.slices[piece.slice].devices;
    return static_cast<uint32_t>(std::ranges::find(devices, device) - devices.begin());
  }

  // Whether what it waits on has happened on the other slices.
  bool can_go(const Piece& piece, DeviceRef device) {
    const RunModel& run = runs_.at(piece.run);
    const uint32_t index = index_of(piece, device);
    if (run.ended[piece.slice][index] != piece.position) return false;
    const GangPlan& plan = clients_.at(run.client).plan;
    for (const GangPlan::Stop& stop : plan.slices[piece.slice].stops) {
      if (stop.position != piece.position) continue;
      if (!stop.is_gate) return run.ended[stop.slice][index] > stop.sent;
      for (uint32_t s = 0; s < plan.slices.size(); ++s) {
        const uint32_t gate = gate_of(plan.slices[s]);
        for (uint32_t ended : run.ended[s]) {
          if (ended < gate) return false;
        }
      }
    }
    return true;
  }
  static uint32_t gate_of(const GangPlan::Slice& slice) {
    for (const GangPlan::Stop& stop : slice.stops) {
      if (stop.is_gate) return stop.position;
    }
    return 0;
  }

  void start_next(DeviceRef at_device) {
    Device& device = devices_.at(at_device);
    if (device.is_busy) return;
    for (auto next = device.granted.begin(); next != device.granted.end(); ++next) {
      if (!can_go(next->second, at_device)) continue;
      const Piece piece = next->second;
      device.granted.erase(next);
      device.is_busy = true;
      begin(piece, at_device);
      return;
    }
  }

  // A collective holds its device until all have come.
  void begin(const Piece& piece, DeviceRef device) {
    RunModel& run = runs_.at(piece.run);
    if (!std::exchange(run.began, true)) {
      int64_t& longest = longest_wait_[run.client];
      longest = std::max(longest, now_ - run.submitted_ns);
    }
    const Client& client = clients_.at(run.client);
    const int64_t ns = ns_.at(run.client)[piece.slice][piece.position];
    if (!client.meet.contains(piece.position) || piece.slice != 0) {
      at(now_ + ns, [this, piece, device, from = now_] { end(piece, device, from); });
      return;
    }
    const auto& members = client.plan.slices[0].devices;
    if (++run.came[{piece.slice, piece.position}] < members.size()) return;
    for (DeviceRef member : members) {
      at(now_ + ns, [this, piece, member, from = now_] { end(piece, member, from); });
    }
  }

  void end(const Piece& piece, DeviceRef at_device, int64_t from) {
    Device& device = devices_.at(at_device);
    RunModel& run = runs_.at(piece.run);
    device.is_busy = false;
    if (now_ > from) device.busy[run.client].emplace_back(from, now_);
    const uint32_t index = index_of(piece, at_device);
    run.ended[piece.slice][index] = piece.position + 1;
    if (index == 0) report(piece, now_ - from);
    std::set<DeviceRef> woken{at_device};
    for (const GangPlan::Slice& slice : clients_.at(run.client).plan.slices) {
      if (run.ended.size() > 1) woken.insert(slice.devices.begin(), slice.devices.end());
    }
    finish_if_done(piece.run);
    for (DeviceRef each : woken) start_next(each);
  }

  void report(const Piece& piece, int64_t busy_ns) {
    at(now_ + kLatencyNs, [this, piece, busy_ns] {
      scheduler_.progress({.run = piece.run,
                           .slice = piece.slice,
                           .position_end = piece.position + 1,
                           .busy_ns = busy_ns},
                          now_);
      scheduler_.pump(now_);
    });
  }

  void finish_if_done(RunId id) {
    const RunModel& run = runs_.at(id);
    const GangPlan& plan = clients_.at(run.client).plan;
    for (uint32_t s = 0; s < plan.slices.size(); ++s) {
      const auto count = static_cast<uint32_t>(plan.slices[s].modelled_ns.size());
      for (uint32_t ended : run.ended[s]) {
        if (ended < count) return;
      }
    }
    at(now_ + kLatencyNs + 1, [this, id] {
      const uint64_t client = runs_.at(id).client;
      scheduler_.ended(id, true);
      runs_.erase(id);
      ++clients_done_[client];
      at(now_ + clients_.at(client).think_ns, [this, client] {
        submit(client);
        scheduler_.pump(now_);
      });
      scheduler_.pump(now_);
    });
  }

  GangScheduler scheduler_;
  bool is_ordered_;
  int64_t now_ = 0;
  std::multimap<int64_t, std::function<void()>> events_;
  std::map<uint64_t, Client> clients_;
  std::map<uint64_t, std::vector<std::vector<int64_t>>> ns_;  // By client, slice and position.
  std::map<uint64_t, int64_t> clients_done_, longest_wait_;
  std::map<DeviceRef, Device> devices_;
  std::map<RunId, RunModel> runs_;
  std::mt19937_64 random_;  // Of an order that is none.
  uint64_t last_run_ = 0, frames_ = 0;
};

std::vector<DeviceRef> on(uint32_t first, uint32_t count) {
  std::vector<DeviceRef> devices;
  for (uint32_t d = first; d < first + count; ++d) devices.push_back({HostId(0), d});
  return devices;
}

// One slice; a run takes `ns`, in sections of `section_ns`.
GangPlan step_of(uint64_t slice, int64_t ns, int64_t section_ns = 250 * kUs,
                 std::vector<DeviceRef> devices = on(0, 2)) {
  GangPlan plan;
  plan.slices.push_back({.id = SliceId(slice), .devices = std::move(devices)});
  for (; ns > 0; ns -= section_ns) {
    plan.slices[0].modelled_ns.push_back(std::min(ns, section_ns));
  }
  plan.positions = plan.slices[0].modelled_ns.size();
  return plan;
}

struct Shares {
  std::vector<double> weights;
  double model = 1;
  int64_t section_ns = 250 * kUs;
};

// Four clients with steps of 1 ms to 2 s, after the steps were measured once.
void expect_shares(const Shares& want) {
  ModelCluster cluster("fair");
  const int64_t steps_ns[] = {2 * kSecond, kMs, 300 * kMs, 20 * kMs};
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) {
    cluster.add({.share = {.weight = want.weights[i]},
                 .plan = step_of(i + 1, steps_ns[i], want.section_ns),
                 .model = want.model});
    sum += want.weights[i];
  }
  const int64_t from = kSecond, until = from + kSecond, window = 50 * kMs;
  cluster.run_until(until);
  EXPECT_GE(cluster.utilisation(from, until), 0.999);
  for (uint64_t client = 1; client <= 4; ++client) {
    const double share = want.weights[client - 1] / sum;
    EXPECT_NEAR(cluster.share(client, from, until), share, 0.005) << "client " << client;
    for (int64_t at = from; at + window <= until; at += 3 * kMs) {
      const double got = static_cast<double>(cluster.busy_ns(client, at, at + window));
      EXPECT_NEAR(got, share * static_cast<double>(window),
                  static_cast<double>(cluster.scheduler().quantum_ns() + want.section_ns))
          << "client " << client << " from " << at;
    }
  }
}

TEST(Shares, FourEqualClientsGetEqualDeviceTimeWhateverTheirSteps) {
  expect_shares({.weights = {1, 1, 1, 1}});
}

TEST(Shares, DeviceTimeIsSharedOneToTwoToFourToEight) {
  expect_shares({.weights = {1, 2, 4, 8}});
  expect_shares({.weights = {8, 4, 2, 1}});
}

TEST(Shares, AModelThatIsFourTimesOffIsCorrectedByWhatIsMeasured) {
  expect_shares({.weights = {1, 2, 4, 8}, .model = 0.25});
  expect_shares({.weights = {8, 4, 2, 1}, .model = 4});
}

TEST(Shares, SectionsOfAMillisecondAreSharedToo) {
  expect_shares({.weights = {1, 2, 4, 8}, .section_ns = kMs});
}

TEST(Shares, ClientsThatEachWaitForTheirResultKeepDevicesBusyTogether) {
  for (int clients : {1, 4, 8, 16}) {
    ModelCluster cluster("fair");
    for (int i = 0; i < clients; ++i) {
      cluster.add({.plan = step_of(static_cast<uint64_t>(i) + 1, 330 * kUs), .ahead = 1});
    }
    cluster.run_until(kSecond);
    const double busy = cluster.utilisation(kSecond / 5, kSecond);
    if (clients == 1) {
      EXPECT_LT(busy, 0.9) << "one alone must not, or this shows nothing";
    } else {
      EXPECT_GE(busy, 0.99) << clients;
    }
  }
}

TEST(Shares, AHighPriorityRunOfAMillisecondWaitsThreeBehindLongOnes) {
  ModelCluster cluster("priority");
  cluster.add({.plan = step_of(1, 2 * kSecond)});
  cluster.add({.plan = step_of(2, 500 * kMs)});
  const uint64_t urgent = cluster.add({.share = {.priority = 10},
                                       .plan = step_of(3, kMs),
                                       .ahead = 1,
                                       .first_ns = 100 * kMs,
                                       .think_ns = 7'300 * kUs});
  cluster.run_until(2 * kSecond);
  EXPECT_GT(cluster.done(urgent), 100);
  EXPECT_LE(cluster.longest_wait_ns(urgent), 3 * kMs);
}

TEST(Shares, UnderPriorityNobodyStarves) {
  ModelCluster cluster("priority");
  const uint64_t low = cluster.add({.plan = step_of(1, 20 * kMs)});
  cluster.add({.share = {.priority = 5}, .plan = step_of(2, 20 * kMs)});
  cluster.run_until(2 * kSecond);
  cluster.run_until(10 * kSecond);
  for (int64_t from = 0; from < 10; ++from) {
    EXPECT_GT(cluster.busy_ns(low, from * kSecond, (from + 1) * kSecond), 0) << from;
  }
}

TEST(Shares, AProgramThatIsAloneIsGrantedWholeRuns) {
  ModelCluster cluster("fair");
  const uint64_t client = cluster.add({.plan = step_of(1, 100 * kMs), .ahead = 2});
  cluster.run_until(kSecond);
  EXPECT_GE(cluster.done(client), 9);
  EXPECT_LE(cluster.frames(), static_cast<uint64_t>(cluster.done(client)) + 2);
}

TEST(Shares, ANewcomerStartsWithoutCreditAndWithoutDebt) {
  ModelCluster cluster("fair");
  const uint64_t first = cluster.add({.plan = step_of(1, 20 * kMs)});
  const uint64_t second = cluster.add({.plan = step_of(2, 30 * kMs), .first_ns = kSecond});
  cluster.run_until(3 * kSecond);
  const int64_t from = kSecond + 200 * kMs;  // Behind what was granted while the first was alone.
  EXPECT_NEAR(cluster.share(first, from, from + kSecond), 0.5, 0.005);
  EXPECT_NEAR(cluster.share(second, from, from + kSecond), 0.5, 0.005);
}

TEST(Shares, AGrantThatCostsMoreReachesFurther) {
  ModelCluster cluster("fair");
  EXPECT_EQ(cluster.scheduler().quantum_ns(), 2 * kMs);
  for (int i = 0; i < 200; ++i) cluster.scheduler().grant_took(300 * kUs, 200 * kUs);
  EXPECT_NEAR(static_cast<double>(cluster.scheduler().quantum_ns()), 10e6, 1e4);
  // What a pause of the controller's process seems to cost counts in part, writes to its hosts all.
  for (int i = 0; i < 200; ++i) cluster.scheduler().grant_took(10 * kMs, 700 * kUs);
  EXPECT_NEAR(static_cast<double>(cluster.scheduler().quantum_ns()), 24e6, 1e4);
}

// Gangs over overlapping devices, with collectives that hold their devices until all have come, and
// transfers both ways. Without the order of tickets it stands still, or this would show nothing.
bool all_go_on(const std::string& policy, bool is_ordered) {
  ModelCluster cluster(policy, is_ordered);
  std::mt19937_64 random(tests::test_seed());
  for (uint64_t i = 1; i <= 8; ++i) {
    const auto first = static_cast<uint32_t>(random() % 3);
    GangPlan plan =
        step_of(2 * i, static_cast<int64_t>(1 + random() % 8) * 100 * kUs, 100 * kUs, on(first, 2));
    ModelCluster::Client client{.share = {.priority = static_cast<int32_t>(random() % 3)}};
    for (uint32_t p = 0; p < plan.positions; p += 2) client.meet.insert(p);
    // A second slice that gets its input from the first, and commits with it.
    GangPlan::Slice second{.id = SliceId(2 * i + 1), .devices = on((first + 2) % 3, 2)};
    const auto send = static_cast<uint32_t>(plan.slices[0].modelled_ns.size());
    plan.slices[0].modelled_ns.insert(plan.slices[0].modelled_ns.end(), {0, 0, 100 * kUs});
    plan.slices[0].stops = {{.position = send + 1, .is_gate = true}};
    second.modelled_ns = {50 * kUs, 0, 150 * kUs, 0, 50 * kUs};
    second.stops = {{.position = 1, .slice = 0, .sent = send}, {.position = 3, .is_gate = true}};
    plan.slices.push_back(std::move(second));
    plan.positions = send + 3 + 4;
    client.plan = std::move(plan);
    client.ahead = 4;
    cluster.add(std::move(client));
  }
  cluster.run_until(kSecond);
  std::vector<int64_t> before;
  for (uint64_t i = 1; i <= 8; ++i) before.push_back(cluster.done(i));
  cluster.run_until(3 * kSecond);
  for (uint64_t i = 1; i <= 8; ++i) {
    if (cluster.done(i) <= before[i - 1]) return false;
  }
  return true;
}

TEST(Shares, CrossingGangsNeverDeadlockUnderAnyPolicy) {
  for (const char* policy : {"fifo", "fair", "priority"}) EXPECT_TRUE(all_go_on(policy, true));
}

TEST(Shares, WithoutTheOrderOfTicketsTheyDo) { EXPECT_FALSE(all_go_on("fair", false)); }

}  // namespace
}  // namespace gangway::shares_test
