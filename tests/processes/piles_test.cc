// Counts resources that would pile up over weeks in the processes of a cluster (descriptors by
// kind, mapped segments and threads) before and after many lives of clients.
#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway::piles_test {
namespace {

namespace fs = std::filesystem;

using Piles = std::map<std::string, size_t>;

// "socket", "anon_inode", "/memfd", "a file".
std::string kind_of(const std::string& target) {
  const size_t colon = target.find(':');
  return colon == std::string::npos ? "a file" : target.substr(0, colon);
}

void add_piles(pid_t pid, const std::string& of, Piles& piles) {
  const fs::path process = fs::path("/proc") / std::to_string(pid);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error))
    ++piles[cat(of, ": ", kind_of(fs::read_symlink(entry.path(), error).string()))];
  for (const auto& entry : fs::directory_iterator(process / "task", error)) {
    static_cast<void>(entry);
    ++piles[of + ": threads"];
  }
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);)
    piles[of + ": mapped segments"] += line.find("/memfd:") != std::string::npos;
}

std::string text_of(const Piles& piles) {
  std::string text;
  for (const auto& [name, count] : piles) text += cat(name, " ", count, "; ");
  return text;
}

// A pool starts a thread when all its threads are busy, up to a few: their number depends on how
// many tasks came at the same time. A thread of each life would be far more.
bool is_no_more(Piles now, Piles before) {
  constexpr size_t kPoolThreadsMax = 3;
  for (const char* threads : {"controller: threads", "executor: threads"}) {
    if (now[threads] > before[threads] + kPoolThreadsMax) return false;
    now.erase(threads);
    before.erase(threads);
  }
  return std::ranges::all_of(now, [&](const auto& one) { return one.second <= before[one.first]; });
}

Program counting() {
  ProgramBuilder b("counting", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32({1024})), {{"data", shard(0)}});
  const Value next = w + b.input("x", f32({1024}), {{"data", shard(0)}});
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

class PilesTest : public testing::Test {
 protected:
  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& said) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments), .output_file = said.path()});
  }
  Client connect(const std::string& name) const {
    return gangway::connect(address_, {.name = name, .on_warning = [](const std::string&) {}});
  }
  void live(int number) const {
    const Client client = connect(cat("life-", number));
    {
      const Slice slice = client.allocate({.devices = 2, .wait_ms = 10'000});
      const Executable step = slice.compile(counting());
      if (number % 5 == 0) slice.keep_checkpoints({.every = 1, .keep = 1});
      const Array x =
          slice.from_host(HostTensor::of<float>({1024}, std::vector<float>(1024, 1.0f)));
      for (int i = 0; i < 3; ++i) step.run({{"x", x}}).wait();
      EXPECT_EQ(slice.read_state("w").as<float>()[0], 3.0f);
    }
    if (number % 2 == 0) client.close();  // Otherwise its last handle ends it.
  }
  // Number of these programs that the controller still has.
  static int64_t lives(const Client& onlooker) {
    return std::ranges::count_if(onlooker.status().programs, [](const ProgramStatus& program) {
      return program.name.starts_with("life-");
    });
  }
  Piles piles() const {
    Piles piles;
    add_piles(controller_.pid(), "controller", piles);
    add_piles(executor_.pid(), "executor", piles);
    return piles;
  }

  const TempDir folder_;
  const std::string address_ = "unix:" + (folder_.path() / "gangway.sock").string();
  const AnonymousFile controller_said_{"controller"}, executor_said_{"executor"};
  const ChildProcess controller_ = start(
      {"controller", "--listen", address_, "--checkpoint-dir", (folder_.path() / "kept").string()},
      controller_said_);
  const ChildProcess executor_ = start(
      {"executor", "--connect", address_, "--devices", "2", "--memory", std::to_string(64 << 20)},
      executor_said_);
};

TEST_F(PilesTest, ProcessesHaveAsManyDescriptorsSegmentsAndThreadsAsBeforeManyClients) {
  constexpr int kWarmUp = 15, kLives = 45;
  const Client onlooker = connect("onlooker");
  for (int i = 0; i < kWarmUp; ++i) live(i);
  EXPECT_TRUE(eventually([&] { return lives(onlooker) == 0; }, kForFiles));
  // Work that goes on after the last client has ended once nothing changes for a while.
  constexpr int kSameLooks = 50;
  Piles before;
  int same = 0;
  EXPECT_TRUE(eventually(
      [&] {
        Piles now = piles();
        same = now == before ? same + 1 : 0;
        before = std::move(now);
        return same == kSameLooks;
      },
      kForFiles))
      << text_of(before);
  for (int i = 0; i < kLives; ++i) live(i);
  EXPECT_TRUE(
      eventually([&] { return lives(onlooker) == 0 && is_no_more(piles(), before); }, kForFiles))
      << text_of(piles()) << "\nbefore: " << text_of(before);
}

}  // namespace
}  // namespace gangway::piles_test
