// Prints what a GPU would be asked to do in one training step of GPT-2's shapes, as JSON, on a
// machine without a GPU: every kernel with its grid and the bytes of its tensors, every product
// with its operations.
//
//   gpu_launches --model 124m --dtype bf16 --batch 32 --sources DIR
//
// The program is lowered as an executor's device lowers it, and walked as it is run. Generated
// sources are written to DIR/chain-0.cu, ... Nothing is compiled for a GPU here:
// tools/gpu/roofline.py does that, and makes a table of modelled times.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/gpt2_step.h"
#include "bench/listing_driver.h"
#include "bench/model_products.h"
#include "controller/plans/lower.h"
#include "executor/devices/cuda/cuda_device.h"
#include "runtime/base/error.h"

namespace gangway::bench {
namespace {

using nlohmann::json;

Plan plan_of(const Program& program) {
  CompileCache cache;
  return lower(
      program,
      {.slices = {{{.host = 0, .first = 0, .count = 1}}}, .kinds = {"cuda"}, .hosts = {"host"}},
      cache);
}

// Addresses that nothing reads: parameters, results, the arena, a terabyte apart each.
std::vector<std::byte*> addresses_of(const LocalFunction& local) {
  const size_t parameters = local.function->parameters.size();
  std::vector<std::byte*> bases(parameters + local.function->results.size() + 1);
  for (size_t i = 0; i < bases.size(); ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): no memory stands behind them.
    bases[i] = reinterpret_cast<std::byte*>((i + 1) << 40);
  }
  for (const LocalFunction::InPlace& both : local.in_place)
    bases[parameters + both.result] = bases[both.parameter];
  return bases;
}

void walk(CudaDevice& device, const LocalFunction& local) {
  const std::shared_ptr<const CompiledFunction> function = device.compiler().compile(local);
  CallFrame frame;
  frame.bases = addresses_of(local);
  frame.end = function->step_count();
  Turn turn{.stream = device.stream(), .now_ns = device.stream().now_ns()};
  while (frame.step < frame.end) {
    const Progress progress = function->advance(frame, turn);
    if (frame.error != nullptr) throw *frame.error;
    GW_REQUIRE(progress == Progress::kDone, "list of calls: a step waits for another device");
  }
}

json to_json(const ListedCall& call) {
  constexpr const char* kKinds[] = {"kernel", "product", "attention", "attention_grad", "copy"};
  constexpr const char* kAccess[] = {"r", "w", "rw"};
  json tensors = json::array();
  for (const ListedCall::Tensor& tensor : call.tensors)
    tensors.push_back({tensor.bytes, kAccess[static_cast<size_t>(tensor.kind)]});
  return {{"kind", kKinds[call.kind]},
          {"label", call.label},
          {"kernel", call.kernel},
          {"source", call.source},
          {"grid", {call.grid[0], call.grid[1], call.grid[2]}},
          {"block", call.block},
          {"shared_bytes", call.shared_bytes},
          {"tensors", tensors},
          {"flops", call.flops},
          {"count", call.count}};
}

int run(int argc, char** argv) {
  CLI::App app("What a card would be asked to do in one training step");
  std::string model = "124m", dtype = "bf16", sources;
  int64_t batch = 32, seq = 0;
  app.add_option("--model", model)->check(CLI::IsMember({"tiny", "124m", "124m-moe", "xl"}));
  app.add_option("--dtype", dtype)->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--batch", batch, "sequences");
  app.add_option("--seq", seq);
  app.add_option("--sources", sources, "folder for generated sources");
  CLI11_PARSE(app, argc, argv);

  const programs::TransformerConfig config = model_config(model, dtype, seq);
  const Plan plan = plan_of(gpt2_step(config, batch, Mesh{{{"data", 1}}}));
  const auto driver = std::make_shared<ListingDriver>();
  const auto gpu = std::make_shared<cuda::Gpu>(driver);
  json calls = json::array();
  {
    CudaDevice device({.name = "cuda-0", .memory_bytes = int64_t{141} << 30, .gpu = gpu});
    for (const PlanNode& node : plan.nodes) {
      if (node.kind == PlanNodeKind::kCall) walk(device, plan.functions[node.function]);
    }
  }
  for (const ListedCall& call : driver->list()) calls.push_back(to_json(call));
  for (size_t i = 0; i < driver->sources().size() && !sources.empty(); ++i)
    std::ofstream(cat(sources, "/chain-", i, ".cu")) << driver->sources()[i];
  const json all = {{"model", model},
                    {"dtype", dtype},
                    {"batch", batch},
                    {"seq", config.seq},
                    {"tokens", batch * config.seq},
                    {"useful_flops", step_flops(config, batch)},
                    {"calls", calls}};
  std::printf("%s\n", all.dump(1).c_str());
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
