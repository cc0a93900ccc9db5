// Three mixture-of-experts programs at once on two islands: one pre-trains over both, one
// fine-tunes on one of them what the first had learnt after 20 steps, and one evaluates every
// twentieth version of the first while it trains. They share devices by weights of 4:2:1, and none
// of them can tell: all numbers are those that each program gets alone, to the last bit.
//   multi_program_moe [ADDRESS]    a cluster with two islands of two devices each; without one it
//                                  starts its own
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <system_error>

#include "gangway.h"
#include "programs/default_text.h"
#include "programs/strategies/strategies.h"
#include "programs/train/checkpoint.h"
#include "programs/train/language_model.h"

namespace gw = gangway;
namespace fs = std::filesystem;
using gw::programs::LanguageModelConfig;

namespace {

constexpr int kPretrainSteps = 60, kFinetuneSteps = 40;
constexpr int kEvery = 20;  // Versions of the pre-training that are evaluated.
constexpr size_t kAhead = 8;

// A temporary folder, removed with the object.
struct Files {
  const fs::path root = [] {
    std::error_code error;
    std::string name = fs::temp_directory_path(error) / "multi_program_moe.XXXXXX";
    GW_REQUIRE(mkdtemp(name.data()) != nullptr, "no folder can be made: ", name);
    return fs::path(name);
  }();
  const fs::path book = root / "book", gospels = root / "gospels";
  const fs::path checkpoints = root / "checkpoints";
  ~Files() {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
};

LanguageModelConfig config_of(const fs::path& text) {
  LanguageModelConfig config{.batch = 8, .text = text.string()};
  config.model = {.seq = 64, .dim = 64, .layers = 2, .heads = 4, .hidden = 128};
  config.model.moe = {.experts = 4, .groups = 4, .capacity_factor = 2};
  return config;
}

// A program with a client, slice and executable of its own on the cluster.
struct Job {
  gw::Client client;
  gw::Slice slice;
  gw::Executable step;
};

Job pretraining(const std::string& address, const Files& files) {
  gw::Client client = gw::connect(address, {.name = "pretrain", .weight = 4});
  gw::Slice slice = client.allocate({.devices = 4});
  gw::Mesh mesh = slice.mesh({{"data", 2}, {"expert", 2}});
  LanguageModelConfig config = config_of(files.book);
  auto strategy = gw::programs::strategy_of("zero1+expert_parallel", mesh, config.model);
  return {client, slice, slice.compile(gw::programs::train_step(config, mesh, strategy))};
}

Job finetuning(const std::string& address, const Files& files) {
  gw::Client client = gw::connect(address, {.name = "finetune", .weight = 2});
  gw::Slice slice = client.allocate({.devices = 2, .one_island = true});
  gw::Mesh mesh = slice.mesh({{"data", 2}});
  return {client, slice, slice.compile(gw::programs::train_step(config_of(files.gospels), mesh))};
}

Job evaluation(const std::string& address, const Files& files) {
  gw::Client client = gw::connect(address, {.name = "evaluate", .weight = 1});
  gw::Slice slice = client.allocate({.devices = 2, .one_island = true});
  gw::Mesh mesh = slice.mesh({{"data", 2}});
  return {client, slice, slice.compile(gw::programs::evaluate(config_of(files.book), mesh))};
}

// Returns the losses of `steps` steps. Calls `on_step` once a step is enqueued, before the next is.
std::vector<float> train(
    const Job& job, int steps, float lr, const std::function<void(int)>& on_step = [](int) {}) {
  std::vector<float> losses;
  std::deque<gw::Run> open;
  const auto take_oldest = [&] {
    losses.push_back(open.front()["loss"].item<float>());
    open.pop_front();
    job.client.report({{"step", static_cast<double>(losses.size())}, {"loss", losses.back()}});
  };
  for (int i = 1; i <= steps; ++i) {
    if (open.size() == kAhead) take_oldest();
    open.push_back(job.step.run({{"lr", lr}, {"step", static_cast<float>(i)}}));
    on_step(i);
  }
  while (!open.empty()) take_oldest();
  return losses;
}

float evaluate(const Job& job) {
  job.step.set_position(0);  // The same held-out batch each time.
  return job.step.run()["cross_entropy"].item<float>();
}

struct Results {
  std::vector<float> pretrain, finetune, evaluate;
};

std::vector<float> pretrain(const Job& job, const std::function<void(int)>& on_step = [](int) {}) {
  return train(job, kPretrainSteps, 3e-3f, on_step);
}
std::vector<float> finetune(const Job& job) { return train(job, kFinetuneSteps, 1e-3f); }

// Runs the programs one after the other, with checkpoints in files.
Results run_alone(const std::string& address, const Files& files) {
  Results results;
  gw::CheckpointDir checkpoints(files.checkpoints);
  {
    const Job job = pretraining(address, files);
    results.pretrain = pretrain(job, [&](int step) {
      if (step % kEvery == 0)
        gw::programs::save_checkpoint(job.slice, files.checkpoints, {.step = step},
                                      {.keep = kPretrainSteps / kEvery});
    });
  }
  {
    const Job job = finetuning(address, files);
    gw::programs::load_checkpoint(job.slice, checkpoints.folder_of(kEvery));
    results.finetune = finetune(job);
  }
  const Job job = evaluation(address, files);
  for (int64_t step : checkpoints.steps()) {
    gw::programs::load_checkpoint(job.slice, checkpoints.folder_of(step), {.states = {"params.*"}});
    results.evaluate.push_back(evaluate(job));
  }
  return results;
}

// Shows on a terminal, in one line, each program's part of its devices and its progress.
void show_shares(const gw::Client& client) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K");
  for (const gw::ProgramStatus& program : client.status().programs) {
    if (program.devices == 0) continue;
    std::fprintf(stderr, "%s (%g) %2.0f %%", program.name.c_str(), program.share.weight,
                 100 * program.used);
    for (const auto& [name, value] : program.reported)
      std::fprintf(stderr, " %s %.4g", name.c_str(), value);
    std::fprintf(stderr, "  ");
  }
}

// Runs all three at once, each in a thread as if it were a process of its own.
Results run_together(const std::string& address, const Files& files) {
  const Job trainer = pretraining(address, files);
  const Job tuner = finetuning(address, files);
  const Job evaluator = evaluation(address, files);
  // Versions are asked for before the trainer reaches them: it keeps none that nobody asked for.
  gw::Snapshot begin = tuner.client.open_states("pretrain").at(kEvery, tuner.slice);
  gw::SharedStates states = evaluator.client.open_states("pretrain");
  std::vector<gw::Snapshot> versions;
  for (int version = kEvery; version <= kPretrainSteps; version += kEvery)
    versions.push_back(states.at(version, evaluator.slice));

  auto pretrained = std::async(std::launch::async, [&] { return pretrain(trainer); });
  auto finetuned = std::async(std::launch::async, [&] {
    tuner.slice.load(begin);  // Waits for version 20.
    return finetune(tuner);
  });
  auto evaluated = std::async(std::launch::async, [&] {
    std::vector<float> losses;
    for (const gw::Snapshot& version : versions) {
      evaluator.slice.load(version);
      losses.push_back(evaluate(evaluator));
      evaluator.client.report({{"version", static_cast<double>(version.version())}});
    }
    return losses;
  });
  const auto running = [](const auto& result) {
    return result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready;
  };
  while (running(pretrained) || running(finetuned) || running(evaluated))
    show_shares(trainer.client);
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\n");
  return {pretrained.get(), finetuned.get(), evaluated.get()};
}

void report(const char* what, const std::vector<float>& together, const std::vector<float>& alone) {
  std::printf("%-25s as alone: %s, the loss fell: %s\n", what, together == alone ? "yes" : "no",
              together.back() < together.front() ? "yes" : "no");
}

}  // namespace

int main(int argc, char** argv) try {
  const Files files;
  const std::string text = gw::programs::default_text();
  std::ofstream(files.book) << text.substr(0, text.size() / 4 * 3);
  std::ofstream(files.gospels) << text.substr(text.size() / 4 * 3);

  std::optional<gw::Client> cluster;
  if (argc < 2) cluster = gw::connect("local:2x2", {.islands = 2});
  const std::string address = argc < 2 ? cluster->address() : argv[1];
  const Results alone = run_alone(address, files);
  const Results together = run_together(address, files);
  report("pretrain, 60 steps:", together.pretrain, alone.pretrain);
  report("finetune, 40 steps:", together.finetune, alone.finetune);
  report("evaluate, 3 versions:", together.evaluate, alone.evaluate);
} catch (const gw::Error& error) {
  return gw::report(error);
}
// Prints:
// pretrain, 60 steps:       as alone: yes, the loss fell: yes
// finetune, 40 steps:       as alone: yes, the loss fell: yes
// evaluate, 3 versions:     as alone: yes, the loss fell: yes
