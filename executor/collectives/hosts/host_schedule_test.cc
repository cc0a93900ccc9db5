#include "executor/collectives/hosts/host_schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <string>

#include "runtime/base/error.h"

namespace gangway {
namespace {

using Kind = HostStep::Kind;

// The tree over hosts [first, first + count), as text.
std::string tree(uint32_t first, uint32_t count) {
  if (count == 1) return std::to_string(first);
  const uint32_t left = std::bit_floor(count - 1);
  return cat("(", tree(first, left), " ", tree(first + left, count - left), ")");
}

// All hosts of a group, whose values are texts that say what was combined with what.
class Hosts {
 public:
  Hosts(uint32_t count, HostSchedule (*schedule)(uint32_t, uint32_t)) {
    for (uint32_t h = 0; h < count; ++h) {
      hosts_.push_back({schedule(count, h), 0, {}, {}});
      hosts_[h].partial.assign(hosts_[h].schedule.chunks, std::to_string(h));
      hosts_[h].result.resize(hosts_[h].schedule.chunks);
    }
  }

  // Advances every host as far as it can go, one after another, until none can go on.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t h = 0; h < hosts_.size(); ++h) {
        while (hosts_[h].cursor < hosts_[h].schedule.steps.size() && step(h)) moved = true;
      }
    }
  }

  struct Host {
    HostSchedule schedule;
    size_t cursor = 0;
    std::vector<std::string> partial, result;  // Indexed by chunk.
    std::set<uint32_t> peers = {};
    uint32_t chunks_sent = 0;
  };
  const std::vector<Host>& all() const { return hosts_; }

 private:
  bool step(uint32_t self) {
    Host& host = hosts_[self];
    const HostStep& step = host.schedule.steps[host.cursor];
    const bool sends = step.kind == Kind::kSend || step.kind == Kind::kSendResult;
    if (step.kind == Kind::kFinish) {
      for (uint32_t c = step.begin; c < step.end; ++c) host.result[c] = host.partial[c];
    } else if (sends) {
      const auto& from = step.kind == Kind::kSend ? host.partial : host.result;
      const bool first =
          sent_.insert({{self, step.peer, step.kind == Kind::kSend}, {from, step.begin, step.end}})
              .second;
      EXPECT_TRUE(first) << "two messages of one kind from " << self << " to " << step.peer;
      host.peers.insert(step.peer);
      host.chunks_sent += step.end - step.begin;
    } else if (!receive(self, step)) {
      return false;
    }
    ++host.cursor;
    return true;
  }

  bool receive(uint32_t self, const HostStep& step) {
    Host& host = hosts_[self];
    const bool combines = step.kind == Kind::kCombine;
    const auto found = sent_.find({step.peer, self, combines});
    if (found == sent_.end()) return false;
    const Message& message = found->second;
    EXPECT_EQ(message.begin, step.begin);
    EXPECT_EQ(message.end, step.end);
    for (uint32_t c = step.begin; c < step.end; ++c) {
      const std::string& theirs = message.chunks[c];
      std::string& mine = (combines ? host.partial : host.result)[c];
      if (!combines) {
        mine = theirs;
      } else {
        mine = step.peer_left ? cat("(", theirs, " ", mine, ")") : cat("(", mine, " ", theirs, ")");
      }
    }
    return true;
  }

  struct Key {
    uint32_t from, to;
    bool partial;
    auto operator<=>(const Key&) const = default;
  };
  struct Message {
    std::vector<std::string> chunks;
    uint32_t begin, end;
  };
  std::vector<Host> hosts_;
  std::map<Key, Message> sent_;
};

uint32_t log2_up(uint32_t n) { return static_cast<uint32_t>(std::bit_width(n - 1)); }

class HostScheduleTest : public testing::TestWithParam<HostSchedule (*)(uint32_t, uint32_t)> {};

TEST_P(HostScheduleTest, EveryHostLearnsTheTreeOverAllHostsInEveryChunk) {
  for (const uint32_t count :
       {2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 12u, 16u, 17u, 31u, 33u, 64u, 100u}) {
    Hosts hosts(count, GetParam());
    hosts.run();
    for (const Hosts::Host& host : hosts.all()) {
      ASSERT_EQ(host.cursor, host.schedule.steps.size()) << count << " hosts: one waits for ever";
      for (const std::string& chunk : host.result) ASSERT_EQ(chunk, tree(0, count));
    }
  }
}

TEST_P(HostScheduleTest, AHostHasAtMostTwiceTheLogarithmOfAllHostsAsPeers) {
  for (uint32_t count = 2; count <= 130; ++count) {
    Hosts hosts(count, GetParam());
    hosts.run();
    for (const Hosts::Host& host : hosts.all())
      ASSERT_LE(host.peers.size(), 2 * log2_up(count)) << count << " hosts";
  }
}

// This makes it safe to write over the message before (host_schedule.h).
TEST_P(HostScheduleTest, AHostReceivesFromEveryHostThatItSendsTo) {
  for (uint32_t count = 2; count <= 40; ++count) {
    for (uint32_t self = 0; self < count; ++self) {
      std::set<uint32_t> to, from;
      for (const HostStep& step : GetParam()(count, self).steps) {
        if (step.kind == Kind::kSend || step.kind == Kind::kSendResult) to.insert(step.peer);
        if (step.kind == Kind::kCombine || step.kind == Kind::kTake) from.insert(step.peer);
      }
      ASSERT_EQ(to, from) << "host " << self << " of " << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, HostScheduleTest,
                         testing::Values(&reduce_schedule, &exchange_schedule),
                         [](const auto& i) { return i.index == 0 ? "reduce" : "exchange"; });

TEST(HostScheduleCostTest, APowerOfTwoOfHostsSendsNoMoreThanTwiceTheValue) {
  for (const uint32_t count : {2u, 4u, 8u, 64u, 128u}) {
    Hosts hosts(count, &reduce_schedule);
    hosts.run();
    for (const Hosts::Host& host : hosts.all()) {
      EXPECT_EQ(host.schedule.chunks, count);
      EXPECT_EQ(host.chunks_sent, 2 * (count - 1));
    }
  }
}

TEST(HostScheduleCostTest, APowerOfTwoOfHostsExchangesInLogarithmicallyManySteps) {
  for (const uint32_t count : {2u, 4u, 128u})
    EXPECT_EQ(exchange_schedule(count, 1).steps.size(), 2 * log2_up(count) + 1);
}

}  // namespace
}  // namespace gangway
