#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "executor/collectives/shm/shm_collective.h"
#include "runtime/os/shared_segment.h"
#include "runtime/os/thread.h"
#include "tests/conformance/collective_suite.h"

namespace gangway {
namespace {

// A group's memory: a doorbell and an area for each rank.
struct Group {
  Group(std::byte* data, uint32_t size, int64_t staging_bytes) : staging(staging_bytes) {
    for (uint32_t r = 0; r < size; ++r) {
      std::byte* at = data + r * stride(staging_bytes);
      bells.push_back(reinterpret_cast<Doorbell*>(at));
      members.push_back({RankArea::at(at + 64), {bells.back(), nullptr}});
    }
  }
  static int64_t stride(int64_t staging_bytes) {
    return 64 + (RankArea::bytes(staging_bytes) + 63) / 64 * 64;
  }

  bool run(uint32_t rank, const MemberBody& body) {
    ShmCollective collective(rank, members, staging);
    const auto finish = [&] {
      while (true) {
        const uint32_t ticket = bells[rank]->ticket();
        if (collective.advance() == Progress::kDone) return !collective.poisoned();
        bells[rank]->wait(ticket, SpinPolicy::park());
      }
    };
    CollectiveMember member{
        .rank = rank,
        .all_reduce =
            [&](std::span<const CollectiveTensor> tensors, Reduction reduction, bool poisoned) {
              collective.begin_all_reduce(tensors, reduction, poisoned);
              return finish();
            },
        .exchange =
            [&](uint64_t word, bool poisoned, std::vector<uint64_t>& words) {
              collective.begin_exchange(word, poisoned);
              const bool clean = finish();
              words.assign(collective.words().begin(), collective.words().end());
              return clean;
            }};
    return body(member);
  }

  int64_t staging;
  std::vector<Doorbell*> bells;
  std::vector<ShmMember> members;
};

bool run_threads(uint32_t size, int64_t bytes, const MemberBody& body) {
  SharedSegment segment = SharedSegment::create(static_cast<size_t>(size * Group::stride(bytes)));
  Group group(segment.data(), size, bytes);
  std::atomic<bool> good{true};
  std::vector<Thread> threads;
  for (uint32_t r = 0; r < size; ++r) {
    threads.emplace_back("rank", [&, r] {
      if (!group.run(r, body)) good = false;
    });
  }
  for (Thread& thread : threads) thread.join();
  return good;
}

bool run_processes(uint32_t size, int64_t bytes, const MemberBody& body) {
  SharedSegment segment = SharedSegment::create(static_cast<size_t>(size * Group::stride(bytes)));
  std::vector<pid_t> children;
  for (uint32_t r = 0; r < size; ++r) {
    const pid_t child = fork();
    if (child == 0) {
      Group group(segment.data(), size, bytes);
      _exit(group.run(r, body) ? 0 : 1);
    }
    children.push_back(child);
  }
  bool good = true;
  for (pid_t child : children) {
    int status = 0;
    good &= waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

INSTANTIATE_TEST_SUITE_P(Shm, CollectiveSuite,
                         testing::Values(CollectiveMaker{"threads", run_threads},
                                         CollectiveMaker{"processes", run_processes}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
