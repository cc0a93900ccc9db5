// Two trainers and an evaluator over a cluster of processes for a minute, while other clients and
// hosts are killed or stopped, exceed a quota, or send as much as they may.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "gangway.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/thread.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = 8, kColumns = 64;
constexpr uint64_t kEvery = 200;  // Versions between two evaluations.
constexpr int kLookSeconds = 15;  // Seconds in which shares are watched while no process dies.
constexpr int kSeconds = 60;

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void wait_until_ms(int64_t at_ms) {
  const int64_t left_ms = at_ms - now_ms();
  if (left_ms <= 0) return;
  const timespec left{left_ms / 1000, left_ms % 1000 * 1'000'000};
  nanosleep(&left, nullptr);
}

// Linear regression whose data are drawn from the number of the step. Each step keeps its devices
// busy for `busy_us`, which does not change the results.
Program training(const Mesh& mesh, int64_t busy_us) {
  ProgramBuilder b("training", mesh);
  const Value w = b.state("w", normal(f32({kColumns, kColumns}), 0.1), {{"data", shard(0)}});
  const Value m = b.state("m", zeros(f32({kColumns, kColumns})));
  const Value key = b.input("key", i32({2}));
  const Value x = b.shard(random_normal(key, f32({kRows, kColumns})), {{"data", shard(0)}});
  const Value error = timed(dot(x, w), busy_us) - x * 0.5;
  const Value gradient = dot(transpose(x, {1, 0}), error) * (1.0 / kRows);
  const Value next_m = m * 0.9 + gradient;
  b.update(m, next_m);
  b.update(w, w - next_m * 0.01);
  b.output("loss", mean(error * error));
  return b.build();
}

Program evaluating(const Mesh& mesh) {
  ProgramBuilder b("evaluating", mesh);
  const Value w = b.state("w", zeros(f32({kColumns, kColumns})), {{"data", shard(0)}});
  b.output("norm", sum(w * w));
  return b.build();
}

Program keeping_busy(const Mesh& mesh, int64_t busy_us) {
  ProgramBuilder b("busy", mesh);
  const Value count = b.state("count", zeros(f32()));
  const Value next = timed(count, busy_us) + 1.0;
  b.update(count, next);
  b.output("count", next);
  return b.build();
}

struct Job {
  Client client;
  Slice slice;
  Executable step;
};

// Sends steps, eight ahead, while `goes_on` returns true. Returns all losses.
std::vector<float> train(const Job& job, const std::function<bool(size_t)>& goes_on) {
  std::vector<float> losses;
  std::deque<gangway::Run> open;
  const auto take = [&] {
    losses.push_back(open.front()["loss"].item<float>());
    open.pop_front();
  };
  for (int32_t step = 0; goes_on(static_cast<size_t>(step)); ++step) {
    if (open.size() == 8) take();
    open.push_back(
        job.step.run({{"key", HostTensor::of<int32_t>({2}, std::vector<int32_t>{7, step})}}));
  }
  while (!open.empty()) take();
  return losses;
}

int64_t resident_kb(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  }
  return -1;
}

class TogetherTest : public testing::Test {
 protected:
  TogetherTest() {
    std::ofstream(config_) << R"({"quotas": {"carol": {"devices": 1}}})";
    controller_.emplace(
        start({"controller", "--listen", "127.0.0.1:0", "--config", config_, "--host-timeout", "4"},
              said_));
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }));
    for (const char* const name : {"main-0", "main-1", "victim", "killed", "stopped"})
      executors_.emplace(name, start({"executor", "--connect", address_, "--name", name, "--memory",
                                      std::to_string(64 << 20)},
                                     executor_said_));
    for (const char* const owner : {"bob", "carol", "dave"}) {
      ChildProcess added = start({"token", "add", owner, "--out", token_of(owner)}, executor_said_);
      EXPECT_EQ(added.wait().code, 0) << output_of(executor_said_);
    }
    looker_ = client("looker");
    EXPECT_TRUE(eventually([&] { return looker_->status().hosts.size() == executors_.size(); }));
  }

  std::string token_of(const std::string& owner) const { return folder_.path() / owner; }
  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", own_token_}},
                         .output_file = output.path()});
  }
  Client client(const std::string& name, double weight = 1, const std::string& owner = "") const {
    return connect(address_, {.name = name,
                              .weight = weight,
                              .token_file = owner.empty() ? own_token_ : token_of(owner),
                              .on_warning = [](const std::string&) {}});
  }
  // Allocates on these hosts, and drains the others meanwhile.
  Slice allocate_on(const Client& client, const std::set<std::string>& hosts) const {
    for (const auto& [name, process] : executors_)
      if (!hosts.contains(name)) looker_->drain(name);
    const Slice slice = client.allocate({.devices = static_cast<int64_t>(hosts.size())});
    for (const auto& [name, process] : executors_)
      if (!hosts.contains(name)) looker_->undrain(name);
    return slice;
  }
  Job trainer(const Client& client, int64_t busy_us) const {
    const Slice slice = allocate_on(client, kMain);
    return {client, slice, slice.compile(training(slice.mesh({{"data", 2}}), busy_us))};
  }
  Job evaluator(const Client& client) const {
    const Slice slice = allocate_on(client, kMain);
    return {client, slice, slice.compile(evaluating(slice.mesh({{"data", 2}})))};
  }
  Job busy(const Client& client, const std::set<std::string>& hosts, int64_t busy_us) const {
    const Slice slice = allocate_on(client, hosts);
    const auto devices = static_cast<int64_t>(hosts.size());
    return {client, slice, slice.compile(keeping_busy(slice.mesh({{"data", devices}}), busy_us))};
  }

  HostStatus host(const std::string& name) const {
    for (const HostStatus& host : looker_->status().hosts)
      if (host.name == name) return host;
    return {};
  }
  // The controller's counts of the remaining hosts and of its programs.
  std::map<std::string, int64_t> counted() const {
    const ClusterStatus status = looker_->status();
    std::map<std::string, int64_t> counts = {
        {"programs", static_cast<int64_t>(status.programs.size())}};
    for (const HostStatus& host : status.hosts)
      if (kMain.contains(host.name)) counts[host.name] = host.memory_used;
    return counts;
  }
  std::map<std::string, int64_t> resident() const {
    std::map<std::string, int64_t> kb = {{"controller", resident_kb(controller_->pid())}};
    for (const std::string& name : kMain) kb[name] = resident_kb(executors_.at(name).pid());
    return kb;
  }

  // Starts a training in a process of its own, on a host that no other program uses, and kills it.
  void kill_a_client() const {
    for (const auto& [name, process] : executors_)
      if (name != "victim") looker_->drain(name);
    ChildProcess victim = start({"train", "quickstart", "--connect", address_, "--name", "victim",
                                 "--devices", "1", "--layers", "1", "--dim", "32", "--batch", "4",
                                 "--steps", "1000000", "--out", folder_.path() / "victim-out"},
                                victim_said_);
    const auto runs_of_victim = [&] {
      for (const ProgramStatus& program : looker_->status().programs)
        if (program.name == "victim") return static_cast<int64_t>(program.runs_done);
      return int64_t{-1};
    };
    EXPECT_TRUE(eventually([&] { return runs_of_victim() > 10; })) << output_of(victim_said_);
    for (const auto& [name, process] : executors_)
      if (name != "victim") looker_->undrain(name);
    victim.signal(SIGKILL);
    EXPECT_TRUE(eventually([&] { return runs_of_victim() == -1; }));
    EXPECT_TRUE(eventually([&] { return host("victim").memory_used == 0; }));
  }

  // The losses of each trainer, and the evaluator's results.
  struct Results {
    std::vector<float> pretrain, finetune, evaluations;
  };
  // Runs the three programs while `meanwhile` runs; they end when it returns.
  Results run_all(const std::function<void()>& meanwhile) const {
    Results results;
    const Job pretrain = trainer(client("pretrain", 2), 5000);
    const Job finetune = trainer(client("finetune", 1, "bob"), 5000);
    const Job evaluate = evaluator(client("evaluate", 1, "bob"));
    const Job flood = busy(client("flood", 1, "dave"), kMain, 2000);
    pretrain.slice.allow_read("bob");
    const SharedStates states = evaluate.client.open_states(own_user_name() + "/pretrain");
    Snapshot next = states.at(kEvery, evaluate.slice);

    std::atomic<bool> is_over = false;
    const auto goes_on = [&](size_t) { return !is_over.load(); };
    Thread pretrains("pretrain", [&] { results.pretrain = train(pretrain, goes_on); });
    Thread finetunes("finetune", [&] { results.finetune = train(finetune, goes_on); });
    Thread evaluates("evaluate", [&] {
      for (uint64_t version = kEvery; !is_over; version += kEvery) {
        const Snapshot now = std::exchange(next, states.at(version + kEvery, evaluate.slice));
        while (!now.done() && !is_over) wait_until_ms(now_ms() + 5);
        if (!now.done()) return;
        evaluate.slice.load(now);
        results.evaluations.push_back(evaluate.step.run()["norm"].item<float>());
      }
    });
    // Sends at all times as many runs as its credits allow.
    Thread floods("flood", [&] {
      while (!is_over) static_cast<void>(flood.step.run());
    });
    meanwhile();
    is_over = true;
    for (Thread* const thread : {&pretrains, &finetunes, &evaluates, &floods}) thread->join();
    return results;
  }
  // The sum over seconds of each program's part of its devices' time.
  std::map<std::string, double> look_at_shares() const {
    std::map<std::string, double> used;
    wait_until_ms(now_ms() + 3000);
    for (int second = 0; second < kLookSeconds; ++second) {
      wait_until_ms(now_ms() + 1000);
      for (const ProgramStatus& program : looker_->status().programs)
        used[program.name] += program.used;
    }
    return used;
  }
  // Kills one executor and stops another; both have a program.
  void lose_hosts() {
    for (const char* const name : {"killed", "stopped"}) {
      const Job job = busy(client(cat("on ", name)), {name}, 1000);
      job.step.run().wait();
      const gangway::Run open = job.step.run();
      executors_.at(name).signal(std::string(name) == "killed" ? SIGKILL : SIGSTOP);
      std::optional<Error> why;
      EXPECT_TRUE(eventually([&] {
        const Error error = error_of([&] { job.step.run().wait(); });
        why = error;
        return error.kind() == ErrorKind::kUnavailable;
      }));
      EXPECT_THAT(why->what(), HasSubstr(name));
      static_cast<void>(result_of([&] { open.wait(); }));
    }
    executors_.at("stopped").signal(SIGCONT);
    EXPECT_TRUE(eventually([&] { return host("stopped").devices == 1; }));
  }
  // Asks for more devices than an owner's quota, again and again.
  void exceed_quota_until(int64_t at_ms) const {
    const Client carol = client("carol", 1, "carol");
    const Slice all_of_hers = carol.allocate({.devices = 1});
    while (now_ms() < at_ms) {
      const Error error = error_of([&] { carol.allocate({.devices = 1}); });
      EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(error.what(), HasSubstr("quota"));
      wait_until_ms(now_ms() + 20);
    }
  }
  void expect_resident(const std::map<std::string, int64_t>& before) const {
    for (const auto& [name, kb] : resident())
      EXPECT_NEAR(static_cast<double>(kb), static_cast<double>(before.at(name)),
                  0.05 * static_cast<double>(before.at(name)))
          << name;
  }
  // Expects the results that the programs have alone, on devices that need not be kept busy.
  void expect_as_alone(const Results& together) const {
    const auto alone = [&](const char* name, size_t steps, const std::function<void(Job&)>& look) {
      Job job = trainer(client(name), 0);
      size_t done = 0;
      return train(job, [&](size_t step) {
        if (step > 0 && step % kEvery == 0) look(job);
        return done++ < steps;
      });
    };
    std::vector<float> evaluations;
    const Job evaluate = evaluator(client("evaluate alone"));
    const std::vector<float> pretrain =
        alone("pretrain alone", together.pretrain.size(), [&](Job& job) {
          if (evaluations.size() == together.evaluations.size()) return;
          evaluate.slice.write_state("w", job.slice.read_state("w"));
          evaluations.push_back(evaluate.step.run()["norm"].item<float>());
        });
    EXPECT_EQ(together.pretrain, pretrain);
    EXPECT_EQ(together.finetune, alone("finetune alone", together.finetune.size(), [](Job&) {}));
    EXPECT_GE(together.evaluations.size(), 10u);
    EXPECT_EQ(together.evaluations, evaluations);
  }

  void expect_shares(const std::map<std::string, double>& used) const {
    const std::map<std::string, double> weights = {{"pretrain", 2}, {"finetune", 1}, {"flood", 1}};
    double all = 0;
    for (const auto& [name, weight] : weights) all += used.at(name);
    for (const auto& [name, weight] : weights)
      EXPECT_NEAR(used.at(name) / all, weight / 4, 0.05) << name;
  }

  const std::set<std::string> kMain = {"main-0", "main-1"};
  const TempDir folder_;
  const std::string own_token_ = folder_.path() / "state/token";
  const std::string config_ = folder_.path() / "config.json";
  const AnonymousFile said_{"controller"}, executor_said_{"executor"}, victim_said_{"victim"};
  std::optional<ChildProcess> controller_;
  std::map<std::string, ChildProcess> executors_;
  std::string address_;
  std::optional<Client> looker_;
};

TEST_F(TogetherTest, NobodyNoticesWhatBecomesOfOthersForAMinute) {
  const std::map<std::string, int64_t> nothing = {{"programs", 1}, {"main-0", 0}, {"main-1", 0}};
  EXPECT_EQ(counted(), nothing);
  // A short first round compiles the programs, and fills the caches that processes keep.
  run_all([&] {
    wait_until_ms(now_ms() + 5000);
    kill_a_client();
  });
  EXPECT_TRUE(eventually([&] { return counted() == nothing; }));
  const std::map<std::string, int64_t> resident_before = resident();

  std::map<std::string, double> used;
  const int64_t begin_ms = now_ms();
  const Results together = run_all([&] {
    used = look_at_shares();
    kill_a_client();
    lose_hosts();
    exceed_quota_until(begin_ms + kSeconds * 1000);
  });
  expect_shares(used);
  EXPECT_TRUE(eventually([&] { return counted() == nothing; }));
  EXPECT_EQ(counted(), nothing);
  expect_resident(resident_before);
  expect_as_alone(together);
}

}  // namespace
}  // namespace gangway
