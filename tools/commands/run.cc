// `gangway run FILE`: runs a saved program once, and prints a summary of its outputs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "checkpoint/tensor_files.h"
#include "client/client.h"
#include "runtime/base/printable.h"
#include "runtime/base/rng.h"
#include "tools/commands/command.h"
#include "tools/commands/mesh.h"
#include "tools/io/json.h"
#include "tools/io/number.h"
#include "tools/io/output.h"
#include "tools/io/table.h"

namespace gangway::tool {
namespace {

struct RunCommand {
  std::string file;
  std::vector<std::string> inputs;  // NAME=FILE
  uint64_t seed = 0;
  bool random = false;
  int steps = 1;
  ClusterOptions cluster{.address = "local:1x1"};
  int64_t ranks_per_device = 1;
  bool json = false;
};

// Random values by type, from the seed: uniform floats in [-1, 1), small integers, fair coins.
HostTensor random_tensor(const Type& type, Rng rng) {
  HostTensor tensor(type);
  std::byte* at = tensor.bytes.data();
  for (int64_t i = 0; i < type.elements(); ++i, at += size_of(type.dtype)) {
    const double unit = 2 * rng.uniform() - 1;
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (type.dtype) {
      case DType::kBool: put(static_cast<uint8_t>(unit > 0)); break;
      case DType::kI32: put(static_cast<int32_t>(rng.below(16))); break;
      case DType::kBF16:
        put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(unit)) >> 16));
        break;
      case DType::kF32: put(static_cast<float>(unit)); break;
      case DType::kF64: put(unit); break;
    }
  }
  return tensor;
}

// Returns the tensor of that name in a safetensors file, or its only tensor.
HostTensor read_tensor(const std::string& file, const std::string& name) {
  const TensorFiles files = TensorFiles::open(file);
  const TensorView& view =
      files.tensors().size() == 1 ? files.tensors().begin()->second : files.at(name);
  const std::optional<DType> dtype = to_dtype(view.spec->dtype);
  GW_REQUIRE(dtype.has_value(), file, ": tensor \"", view.spec->name, "\" is of type ",
             to_string(view.spec->dtype), ", which no input has");
  HostTensor tensor(Type{*dtype, view.spec->shape});
  view.read(0, tensor.bytes);
  return tensor;
}

std::vector<Argument> arguments_of(const RunCommand& command, const Program& program) {
  std::map<std::string, std::string> given;
  for (const std::string& input : command.inputs) {
    const size_t equals = input.find('=');
    GW_REQUIRE(equals != std::string::npos && equals > 0, "--input: expected NAME=FILE, got \"",
               input, "\"");
    given[input.substr(0, equals)] = input.substr(equals + 1);
  }
  std::vector<Argument> arguments;
  uint64_t stream = 0;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kInput) continue;
    ++stream;
    if (const auto at = given.find(node.name); at != given.end()) {
      arguments.push_back({node.name, read_tensor(at->second, node.name)});
      given.erase(at);
      continue;
    }
    GW_REQUIRE(command.random, "input \"", node.name, "\" ", to_string(node.types[0]),
               " is missing: give --input ", node.name, "=FILE, or --random SEED");
    arguments.push_back({node.name, random_tensor(node.types[0], Rng(command.seed, stream))});
  }
  GW_REQUIRE(given.empty(), "--input: the program has no input \"", given.begin()->first, "\"");
  return arguments;
}

std::vector<double> as_doubles(const HostTensor& tensor) {
  std::vector<double> values;
  const std::byte* at = tensor.bytes.data();
  for (int64_t i = 0; i < tensor.type.elements(); ++i, at += size_of(tensor.type.dtype)) {
    const auto get = [at](auto value) {
      std::memcpy(&value, at, sizeof value);
      return value;
    };
    switch (tensor.type.dtype) {
      case DType::kBool: values.push_back(get(uint8_t{})); break;
      case DType::kI32: values.push_back(get(int32_t{})); break;
      case DType::kBF16:
        values.push_back(std::bit_cast<float>(uint32_t{get(uint16_t{})} << 16));
        break;
      case DType::kF32: values.push_back(static_cast<double>(get(float{}))); break;
      case DType::kF64: values.push_back(get(double{})); break;
    }
  }
  return values;
}

struct Summary {
  double low = INFINITY, high = -INFINITY, mean = 0;
};

Summary summary_of(const HostTensor& tensor) {
  const std::vector<double> values = as_doubles(tensor);
  Summary summary;
  for (double value : values) {
    summary.low = std::min(summary.low, value);
    summary.high = std::max(summary.high, value);
    summary.mean += value;
  }
  if (!values.empty()) summary.mean /= static_cast<double>(values.size());
  return summary;
}

int run_program(const RunCommand& command) {
  const Program program = Program::load(command.file);
  const std::vector<Argument> arguments = arguments_of(command, program);
  Client client = connect(command.cluster.address, {.timeout_ms = command.cluster.timeout_ms});
  std::vector<Slice> slices;
  slices.reserve(program.slices.size());
  for (const ProgramSlice& slice : program.slices) {
    slices.push_back(client.allocate(
        {.devices = slice.mesh.devices(), .ranks_per_device = command.ranks_per_device}));
  }
  const Executable executable =
      slices[0].compile(program, std::vector<Slice>(slices.begin() + 1, slices.end()));
  Run run = executable.run(arguments);
  for (int step = 1; step < command.steps; ++step) run = executable.run(arguments);
  run.wait();
  std::vector<JsonObject> rows;
  std::vector<std::string> lines;
  for (const ProgramNode& node : program.nodes) {
    if (node.kind != NodeKind::kOutput) continue;
    const HostTensor output = run[node.name].to_host();
    const auto [low, high, mean] = summary_of(output);
    const std::string type = to_string(output.type);
    rows.push_back(
        {{"name", node.name}, {"type", type}, {"min", low}, {"max", high}, {"mean", mean}});
    lines.push_back(cat(padded(printable(node.name), 24), " ", padded(type, 24),
                        formatted(" min %.9g max %.9g mean %.9g", low, high, mean)));
  }
  print_lines(command.json ? std::vector{to_json(rows)} : lines);
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("run", "Run a saved program");
  auto options = std::make_shared<RunCommand>();
  command->add_option("FILE", options->file, "a program, as Program::save() writes it")->required();
  command->add_option("--input", options->inputs, "NAME=FILE, a safetensors file; repeatable");
  auto* random =
      command->add_option("--random", options->seed, "seed to make the inputs that are not given")
          ->check(whole_number(0, INT64_MAX));
  command->add_option("--steps", options->steps, "how often")->check(whole_number(1, 1 << 30));
  add_cluster(*command, options->cluster, "local:EXECUTORSxDEVICES, or a controller's host:port");
  command
      ->add_option("--ranks-per-device", options->ranks_per_device,
                   "so many devices of the program's meshes share each device of the cluster")
      ->check(whole_number(1, kMeshDevicesMax))
      ->capture_default_str();
  command->add_flag("--json", options->json, "as JSON");
  command->callback([&chosen, options, random] {
    options->random = random->count() > 0;
    chosen = [options] { return run_program(*options); };
  });
}

}  // namespace gangway::tool
