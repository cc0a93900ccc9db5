#include "tests/numerics/traced_model.h"

#include <random>

#include "ir/build/autodiff.h"

namespace gangway::numerics {
namespace {

programs::TransformerConfig tiny() {
  return {.vocab = 11,
          .seq = 6,
          .dim = 8,
          .layers = 2,
          .heads = 2,
          .hidden = 12,
          .storage = DType::kF64,
          .compute = DType::kF64};
}

programs::TransformerConfig tiny_moe() {
  programs::TransformerConfig config = tiny();
  config.moe = {.experts = 4,
                .top_k = 2,
                .groups = kBatch,
                .balance_coefficient = 0.3,
                .z_coefficient = 0.05};
  return config;
}

std::vector<int32_t> random_tokens(const programs::TransformerConfig& config, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(config.vocab) - 1);
  std::vector<int32_t> tokens(static_cast<size_t>(kBatch * config.seq));
  for (int32_t& token : tokens) token = any(engine);
  return tokens;
}

}  // namespace

std::vector<Model> models() {
  std::vector<Model> all = {{"Dense", tiny()},
                            {"DenseOther", tiny()},
                            {"DenseRemat", tiny()},
                            {"Moe", tiny_moe()},
                            {"MoeCapacity", tiny_moe()},
                            {"MoeRemat", tiny_moe()},
                            {"MoeResidual", tiny_moe()},
                            {"MoeOneExpert", tiny_moe()},
                            {"MoeOneExpertRenormalized", tiny_moe()}};
  auto other = [](programs::TransformerConfig& config) {
    config.gated = true;
    config.tied = config.positional = false;
    config.activation = programs::Activation::kSilu;
  };
  other(all[1].config);
  all[2].config.remat = true;
  other(all[4].config);
  all[4].config.moe.capacity_factor = 0.75;
  all[4].config.moe.renormalize = false;
  all[5].config.remat = true;
  all[6].config.moe.residual = true;
  all[7].config.moe.top_k = 1;
  all[8].config.moe.top_k = 1;
  all[8].config.moe.renormalize = true;
  return all;
}

reference::ModelConfig reference_of(const programs::TransformerConfig& c) {
  auto narrow = [](int64_t size) { return static_cast<int>(size); };
  const int64_t group_tokens = kBatch * c.seq / c.moe.groups;
  return {.vocab = narrow(c.vocab),
          .seq = narrow(c.seq),
          .dim = narrow(c.dim),
          .layers = narrow(c.layers),
          .heads = narrow(c.heads),
          .hidden = narrow(c.hidden),
          .positional = c.positional,
          .gated = c.gated,
          .tied = c.tied,
          .activation = c.activation == programs::Activation::kGelu
                            ? reference::Activation::kGeluTanh
                            : reference::Activation::kSilu,
          .epsilon = 1e-5,
          .moe = {.experts = narrow(c.moe.experts),
                  .top_k = narrow(c.moe.top_k),
                  .groups = narrow(c.moe.groups),
                  .capacity = narrow(programs::capacity_of(c.moe, group_tokens)),
                  .renormalise = programs::renormalizes(c.moe),
                  .balance_coefficient = c.moe.balance_coefficient,
                  .z_coefficient = c.moe.z_coefficient,
                  .residual = c.moe.residual},
          .experts = {c.experts.begin(), c.experts.end()}};
}

Function loss_and_gradients(const programs::TransformerConfig& config, const Mesh& mesh) {
  Builder b("loss_and_gradients", mesh);
  Tree parameters = programs::transformer_parameters(config).map(
      [&](const std::string& name, const StateSpec& spec) { return b.parameter(name, spec.type); });
  Value tokens = b.parameter("tokens", i32({kBatch, config.seq}), {{"data", shard(0)}});
  programs::Losses losses = programs::transformer_loss(config, parameters, tokens);
  b.result("loss", losses.total);
  gradients(losses.total, parameters).for_each([&](const std::string& name, const Value& gradient) {
    b.result(name, gradient);
  });
  if (config.moe.experts > 0) b.result("load", losses.load);
  return b.build();
}

Example example_of(const programs::TransformerConfig& config, DType dtype, uint64_t first_seed) {
  const reference::ModelConfig model = reference_of(config);
  for (uint64_t seed = first_seed;; ++seed) {
    Example example{
        seed, reference::random_parameters(model, seed), random_tokens(config, seed), {}};
    for (auto& [name, values] : example.parameters) {
      for (double& value : values) value = rounded(dtype, value);
    }
    example.expected = reference::evaluate(model, example.parameters, example.tokens, kBatch);
    const bool drops = config.moe.capacity_factor == 0 || example.expected.dropped > 0;
    if (drops && (config.moe.experts == 0 || example.expected.routing_margin > 1e-3))
      return example;
  }
}

namespace {

// Begin and end of the layer's number in a name. Begin is npos if the tensor is of no layer.
std::pair<size_t, size_t> number_in(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers)) return {std::string::npos, 0};
  return {kLayers.size(), name.find('.', kLayers.size())};
}

// The name of the tensor that has this one in it, or that is this one.
std::string name_of_whole(const std::string& name) {
  for (const char* part : {".attn.q", ".attn.k", ".attn.v"}) {
    if (name.ends_with(part)) return name.substr(0, name.size() - 1) + "qkv";
  }
  return name;
}

}  // namespace

reference::Tensors side_by_side(const reference::Tensors& tensors) {
  const size_t dim = tensors.at("final_norm").size();
  reference::Tensors packed;
  for (const auto& [name, values] : tensors) {
    const std::string whole = name_of_whole(name);
    if (whole == name) packed[name] = values;
    if (!name.ends_with(".attn.q")) continue;
    const std::string front = name.substr(0, name.size() - 1);
    for (size_t at = 0; at < values.size(); at += dim) {
      for (const char* part : {"q", "k", "v"}) {
        const auto row = tensors.at(front + part).begin() + static_cast<std::ptrdiff_t>(at);
        packed[whole].insert(packed[whole].end(), row, row + static_cast<std::ptrdiff_t>(dim));
      }
    }
  }
  return packed;
}

std::string stack_of(const std::string& name) {
  const auto [begin, end] = number_in(name);
  if (begin == std::string::npos) return name;
  return name_of_whole(name.substr(0, begin) + name.substr(end + 1));
}

reference::Tensors stacked(const reference::Tensors& tensors) {
  std::map<std::string, std::map<int, const reference::Vec*>> rows;
  const reference::Tensors packed = side_by_side(tensors);
  for (const auto& [name, values] : packed) {
    const auto [begin, end] = number_in(name);
    const int row = begin == std::string::npos ? 0 : std::stoi(name.substr(begin, end - begin));
    rows[stack_of(name)][row] = &values;
  }
  reference::Tensors stacks;
  for (const auto& [name, layers] : rows) {
    for (const auto& [row, values] : layers)
      stacks[name].insert(stacks[name].end(), values->begin(), values->end());
  }
  return stacks;
}

std::vector<Literal> arguments_of(const Function& function, const Example& example) {
  const reference::Tensors parameters = stacked(example.parameters);
  std::vector<Literal> arguments;
  for (size_t i = 0; i + 1 < function.parameters.size(); ++i)
    arguments.push_back({function.types[i], parameters.at(function.parameters[i].name)});
  arguments.push_back({function.types[function.parameters.size() - 1],
                       {example.tokens.begin(), example.tokens.end()}});
  return arguments;
}

std::vector<Literal> gradients_of(const Function& function, const Example& example) {
  const reference::Tensors gradients = stacked(example.expected.gradients);
  std::vector<Literal> expected;
  for (size_t i = 0; i + 1 < function.parameters.size(); ++i)
    expected.push_back({function.types[i], gradients.at(function.parameters[i].name)});
  return expected;
}

}  // namespace gangway::numerics
