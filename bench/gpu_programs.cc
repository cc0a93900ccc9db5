// Measures whole programs on a GPU, through client, controller and executor, as a user runs them:
// how fast GPT-2's shapes train, and what a node of a chain of 128 trivial calls costs.
//
//   gpu_programs train --model 124m --dtype bf16 --batch 32 --batch 16    the first batch that fits
//   gpu_programs calls
//
// Why it matters: users compare these numbers; tools/gpu/torch_peer.py measures the same in PyTorch
// on the same GPU. How to read it: a line "result: NAME VALUE" for each number. `tflops` counts
// useful operations only (bench/model_products.h); `cpu_ms` is the processor time of client,
// controller and executor for one step. Steps are enqueued ahead, and the last loss is waited for.
// Goals: at least torch.compile's tokens a second; half of the GPU's peak at 1.5B; 10 us a node.
// With --device cpu it only shows that the benchmark works.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "bench/chain.h"
#include "bench/gpt2_step.h"
#include "bench/model_products.h"
#include "bench/processes.h"

namespace gangway::bench {
namespace {

using programs::TransformerConfig;

void result(const std::string& name, double value) {
  std::printf("result: %s %.6g\n", name.c_str(), value);
  std::fflush(stdout);
}

Client start(const std::string& device, int devices) {
  return connect(cat("local:1x", devices), {.device = device, .timeout_ms = 60'000});
}

struct TrainOptions {
  std::string model = "124m", dtype = "bf16", device = "cuda";
  std::vector<int64_t> batches = {8};
  int64_t seq = 0;  // 0: the model's.
  int64_t steps = 20;
  double seconds = 20;  // About how long steps are measured.
};

// One batch for every step, the same as PyTorch gets: a step's time does not depend on its content.
HostTensor tokens_of(const TransformerConfig& config, int64_t batch) {
  std::vector<int32_t> tokens(static_cast<size_t>(batch * config.seq));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(i * 2654435761u % 4294967296u / 256 %
                                     static_cast<uint64_t>(config.vocab));
  return HostTensor::of({batch, config.seq}, tokens);
}

double cpu_s() {
  double all = own_cpu_s();
  for (const ProcessUse& process : children_use()) all += process.cpu_s;
  return all;
}

class Training {
 public:
  Training(const TrainOptions& options, const Client& client)
      : options_(options),
        config_(model_config(options.model, options.dtype, options.seq)),
        name_(cat("train.", options.model, ".", options.dtype, ".gangway.")),
        slice_(client.allocate({.devices = 1})),
        mesh_(slice_.mesh({{"data", 1}})) {
    compile();
    tokens_ = slice_.from_host(tokens_of(config_, batch_));
  }

  void measure() {
    float first = 0, last = 0;
    const double begin_us = now_us();
    for (int i = 0; i < kWarmUp; ++i) {
      last = step()["loss"].item<float>();
      if (i == 0) first = last;
    }
    const double warm_us = now_us();
    last = step()["loss"].item<float>();
    const double one_s = (now_us() - warm_us) * 1e-6;
    const int64_t steps = std::clamp(static_cast<int64_t>(options_.seconds / one_s), int64_t{3},
                                     std::max<int64_t>(options_.steps, 3));
    const double cpu_before_s = cpu_s(), from_us = now_us();
    std::optional<Run> run;
    for (int64_t i = 0; i < steps; ++i) run = step();
    last = (*run)["loss"].item<float>();
    const double step_s = (now_us() - from_us) * 1e-6 / static_cast<double>(steps);
    const double step_cpu_s = (cpu_s() - cpu_before_s) / static_cast<double>(steps);
    GW_REQUIRE(last < first, "train: the loss of one batch must fall, was ", first, ", is ", last);
    put("first_steps_s", (warm_us - begin_us) * 1e-6);
    put("steps", static_cast<double>(steps));
    put("step_ms", step_s * 1e3);
    put("tokens_per_s", static_cast<double>(batch_ * config_.seq) / step_s);
    put("tflops", step_flops(config_, batch_) / step_s * 1e-12);
    put("cpu_ms", step_cpu_s * 1e3);
    put("first_loss", static_cast<double>(first));
    put("last_loss", static_cast<double>(last));
  }

 private:
  static constexpr int kWarmUp = 4;  // The second run is captured, the third replayed.

  void put(const char* what, double value) const { result(name_ + what, value); }

  void compile() {
    for (size_t i = 0; i < options_.batches.size() && !executable_; ++i) {
      batch_ = options_.batches[i];
      const double begin_us = now_us();
      try {
        executable_ = slice_.compile(gpt2_step(config_, batch_, mesh_));
      } catch (const Error& error) {
        std::printf("a batch of %ld after %.1f s: %s\n", static_cast<long>(batch_),
                    (now_us() - begin_us) * 1e-6, error.what());
        if (error.kind() != ErrorKind::kOverloaded || i + 1 == options_.batches.size()) throw;
        continue;
      }
      put("compile_s", (now_us() - begin_us) * 1e-6);
    }
    const MemoryReport::Device needs = executable_->memory().devices.at(0);
    put("batch", static_cast<double>(batch_));
    put("seq", static_cast<double>(config_.seq));
    put("parameters", static_cast<double>(parameter_count(config_)));
    put("planned_mib", static_cast<double>(needs.total() >> 20));
  }

  Run step() {
    count_ += 1;
    return executable_->run({{"tokens", tokens_}, {"lr", 3e-4f}, {"step", count_}});
  }

  const TrainOptions options_;
  const TransformerConfig config_;
  const std::string name_;
  const Slice slice_;
  const Mesh mesh_;
  int64_t batch_ = 0;
  std::optional<Executable> executable_;
  Array tokens_;
  float count_ = 0;
};

constexpr uint32_t kNodes = 128;
constexpr int kRunsAhead = 8, kRounds = 50;

double us_per_node(const Executable& executable, int runs) {
  std::vector<double> rounds;
  for (int round = -3; round < kRounds; ++round) {
    const double us = us_per_run(executable, runs, kNodes);
    if (round >= 0) rounds.push_back(us);
  }
  return median(rounds) / kNodes;
}

void measure_calls(const std::string& device) {
  const Client client = start(device, 2);
  const Slice first = client.allocate({.devices = 1}), second = client.allocate({.devices = 1});
  const Executable one = first.compile(chain(1, kNodes));
  result("calls.chained_128_waited.us_per_node", us_per_node(one, 1));
  result("calls.chained_128_ahead.us_per_node", us_per_node(one, kRunsAhead));
  const Executable two = first.compile(chain(2, kNodes), {second});
  result("calls.alternating_128_ahead.us_per_node", us_per_node(two, kRunsAhead));
}

int run(int argc, char** argv) {
  CLI::App app("Whole programs on a card: how fast models train, what a call costs");
  TrainOptions options;
  auto* train = app.add_subcommand("train", "Steps of a model on one batch");
  train->add_option("--model", options.model)
      ->check(CLI::IsMember({"tiny", "124m", "124m-moe", "xl"}));
  train->add_option("--dtype", options.dtype)->check(CLI::IsMember({"f32", "bf16"}));
  train->add_option("--batch", options.batches, "sequences; the first of several that fits");
  train->add_option("--seq", options.seq);
  train->add_option("--steps", options.steps, "at most");
  train->add_option("--seconds", options.seconds, "of steps, about");
  auto* calls = app.add_subcommand("calls", "Chains of 128 trivial calls");
  for (CLI::App* command : {train, calls})
    command->add_option("--device", options.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  if (calls->parsed()) {
    measure_calls(options.device);
    return 0;
  }
  const Client client = start(options.device, 1);
  std::printf("%s", client.status().hosts.at(0).text.c_str());
  Training(options, client).measure();
  return 0;
}

}  // namespace
}  // namespace gangway::bench

int main(int argc, char** argv) {
  try {
    return gangway::bench::run(argc, argv);
  } catch (const gangway::Error& error) {
    return gangway::report(error);
  }
}
