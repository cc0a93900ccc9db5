#include "tests/numerics/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "tests/numerics/reference_attention.h"

namespace gangway::reference {
namespace {

std::string layer_name(int layer, const std::string& part) {
  return cat("layers.", layer, ".", part);
}

struct LayerTrace {
  Vec x;                     // The layer's input, [rows, dim].
  Vec attention_input;       // The input behind its norm.
  AttentionTrace attention;  // The trace up to the projection `o`.
  Vec attention_output;      // The input of `o`.
  Vec middle;                // The attention's residual sum.
  FeedForwardTrace dense;
  MoeTrace moe;
};

// One evaluation: the forward pass leaves traces that the backward pass consumes in reverse.
class Evaluator {
 public:
  Evaluator(const ModelConfig& config, const Tensors& parameters, std::span<const int32_t> tokens,
            int batch)
      : config_(config),
        parameters_(parameters),
        tokens_(tokens),
        rows_(batch * config.seq),
        attention_shape_{batch, config.seq, config.dim, config.heads} {
    for (const auto& [name, value] : parameters) {
      result_.gradients[name] = Vec(value.size(), 0.0);
    }
    result_.routing_margin = std::numeric_limits<double>::infinity();
  }

  Evaluation run() {
    Vec x = embed();
    std::vector<LayerTrace> traces(static_cast<size_t>(config_.layers));
    for (int l = 0; l < config_.layers; ++l) {
      x = layer_forward(l, std::move(x), traces[static_cast<size_t>(l)]);
    }
    Vec dx = head(x);
    for (int l = config_.layers - 1; l >= 0; --l) {
      dx = layer_backward(l, traces[static_cast<size_t>(l)], std::move(dx));
    }
    embed_backward(dx);
    result_.loss = result_.cross_entropy + config_.moe.balance_coefficient * result_.balance +
                   config_.moe.z_coefficient * result_.z;
    return std::move(result_);
  }

 private:
  View parameter(const std::string& name) const { return parameters_.at(name); }
  View parameter(int layer, const std::string& part) const {
    return parameter(layer_name(layer, part));
  }
  Out gradient(const std::string& name) { return result_.gradients.at(name); }
  Out gradient(int layer, const std::string& part) { return gradient(layer_name(layer, part)); }

  Vec embed() const;
  void embed_backward(View dx);
  Vec layer_forward(int layer, Vec x, LayerTrace& trace);
  Vec layer_backward(int layer, const LayerTrace& trace, Vec dy);
  Vec attention_backward_through(int layer, const LayerTrace& trace, View dy);
  Vec head(View x);
  Vec logits_backward(Vec logits);
  FeedForward block() const;
  FeedForward dense_block(int layer) const;
  bool has_experts(int layer) const { return config_.moe_of(layer).experts > 0; }
  bool has_dense(int layer) const { return !has_experts(layer) || config_.moe.residual; }
  std::string dense_name(int layer, const std::string& part) const;
  MoeWeights moe_weights(int layer) const;
  Vec linear(int layer, const char* part, View x) const {
    return matmul(x, parameter(layer, part), rows_, config_.dim, config_.dim);
  }
  Vec linear_backward(int layer, const char* part, View x, View dy) {
    add_outer(gradient(layer, part), x, dy, rows_, config_.dim, config_.dim);
    return matmul_transposed(dy, parameter(layer, part), rows_, config_.dim, config_.dim);
  }

  const ModelConfig& config_;
  const Tensors& parameters_;
  std::span<const int32_t> tokens_;
  int rows_;
  AttentionShape attention_shape_;
  Evaluation result_;
};

Vec Evaluator::embed() const {
  auto dim = static_cast<size_t>(config_.dim), seq = static_cast<size_t>(config_.seq);
  View table = parameter("embed");
  Vec x;
  for (size_t row = 0; row < tokens_.size(); ++row) {
    for (size_t i = 0; i < dim; ++i) {
      double position = config_.positional ? parameter("pos")[row % seq * dim + i] : 0;
      x.push_back(table[static_cast<size_t>(tokens_[row]) * dim + i] + position);
    }
  }
  return x;
}

void Evaluator::embed_backward(View dx) {
  auto dim = static_cast<size_t>(config_.dim), seq = static_cast<size_t>(config_.seq);
  for (size_t row = 0; row < tokens_.size(); ++row) {
    View d = dx.subspan(row * dim, dim);
    add_to(gradient("embed").subspan(static_cast<size_t>(tokens_[row]) * dim, dim), d);
    if (config_.positional) add_to(gradient("pos").subspan(row % seq * dim, dim), d);
  }
}

FeedForward Evaluator::block() const {
  return {.dim = config_.dim, .hidden = config_.hidden, .activation = config_.activation};
}

// The only block of a layer without experts, or the dense block beside its experts.
FeedForward Evaluator::dense_block(int layer) const {
  FeedForward dense = block();
  dense.up = parameter(layer, dense_name(layer, "up"));
  if (config_.gated) dense.gate = parameter(layer, dense_name(layer, "gate"));
  dense.down = parameter(layer, dense_name(layer, "down"));
  return dense;
}

std::string Evaluator::dense_name(int layer, const std::string& part) const {
  return cat(has_experts(layer) ? "moe.residual." : "ffn.", part);
}

MoeWeights Evaluator::moe_weights(int layer) const {
  return {.router = parameter(layer, "moe.router"),
          .up = parameter(layer, "moe.up"),
          .gate = config_.gated ? parameter(layer, "moe.gate") : View(),
          .down = parameter(layer, "moe.down")};
}

Vec Evaluator::layer_forward(int layer, Vec x, LayerTrace& trace) {
  trace.x = std::move(x);
  trace.attention_input = rms_norm(trace.x, parameter(layer, "attn_norm"), config_.epsilon);
  trace.attention.q = linear(layer, "attn.q", trace.attention_input);
  trace.attention.k = linear(layer, "attn.k", trace.attention_input);
  trace.attention.v = linear(layer, "attn.v", trace.attention_input);
  trace.attention_output = attention(attention_shape_, trace.attention);
  trace.middle = trace.x;
  add_to(trace.middle, linear(layer, "attn.o", trace.attention_output));

  Vec n = rms_norm(trace.middle, parameter(layer, "ffn_norm"), config_.epsilon);
  Vec y = trace.middle;
  if (has_dense(layer)) add_to(y, feed_forward(dense_block(layer), n, trace.dense));
  if (!has_experts(layer)) return y;
  add_to(y,
         moe_forward(config_.moe_of(layer), block(), moe_weights(layer), std::move(n), trace.moe));
  result_.balance += trace.moe.balance;
  result_.z += trace.moe.z;
  result_.expert_loads.push_back(trace.moe.chosen);
  result_.dropped += trace.moe.dropped;
  result_.routing_margin = std::min(result_.routing_margin, trace.moe.margin);
  return y;
}

Vec Evaluator::layer_backward(int layer, const LayerTrace& trace, Vec dy) {
  Vec dn(trace.middle.size(), 0);
  if (has_dense(layer)) {
    FeedForwardGradients gradients = {
        .up = gradient(layer, dense_name(layer, "up")),
        .gate = config_.gated ? gradient(layer, dense_name(layer, "gate")) : Out(),
        .down = gradient(layer, dense_name(layer, "down"))};
    add_to(dn, feed_forward_backward(dense_block(layer), trace.dense, dy, gradients));
  }
  if (has_experts(layer)) {
    MoeGradients gradients = {.router = gradient(layer, "moe.router"),
                              .up = gradient(layer, "moe.up"),
                              .gate = config_.gated ? gradient(layer, "moe.gate") : Out(),
                              .down = gradient(layer, "moe.down")};
    add_to(dn, moe_backward(config_.moe_of(layer), block(), moe_weights(layer), trace.moe, dy,
                            gradients));
  }
  add_to(dy, rms_norm_backward(trace.middle, parameter(layer, "ffn_norm"), config_.epsilon, dn,
                               gradient(layer, "ffn_norm")));
  add_to(dy, attention_backward_through(layer, trace, dy));
  return dy;
}

Vec Evaluator::attention_backward_through(int layer, const LayerTrace& trace, View dy) {
  Vec d_output = linear_backward(layer, "attn.o", trace.attention_output, dy);
  AttentionGradients d = attention_backward(attention_shape_, trace.attention, d_output);
  Vec dn = linear_backward(layer, "attn.q", trace.attention_input, d.q);
  add_to(dn, linear_backward(layer, "attn.k", trace.attention_input, d.k));
  add_to(dn, linear_backward(layer, "attn.v", trace.attention_input, d.v));
  return rms_norm_backward(trace.x, parameter(layer, "attn_norm"), config_.epsilon, dn,
                           gradient(layer, "attn_norm"));
}

// Adds the loss of logits[rows, vocab], and returns its gradient in their place.
Vec Evaluator::logits_backward(Vec logits) {
  auto vocab = static_cast<size_t>(config_.vocab), seq = static_cast<size_t>(config_.seq);
  auto predictions = static_cast<double>(tokens_.size() / seq * (seq - 1));
  for (size_t row = 0; row < tokens_.size(); ++row) {
    Out d = Out(logits).subspan(row * vocab, vocab);
    if (row % seq + 1 == seq) {
      std::fill(d.begin(), d.end(), 0.0);
      continue;
    }
    auto target = static_cast<size_t>(tokens_[row + 1]);
    double target_logit = d[target];
    Vec probabilities(vocab);
    double log_sum = softmax(d, probabilities);
    result_.cross_entropy += (log_sum - target_logit) / predictions;
    for (size_t i = 0; i < vocab; ++i) {
      d[i] = (probabilities[i] - (i == target ? 1 : 0)) / predictions;
    }
  }
  return logits;
}

// Final norm, logits, loss; returns the gradient of x.
Vec Evaluator::head(View x) {
  Vec n = rms_norm(x, parameter("final_norm"), config_.epsilon);
  Vec dn;
  if (config_.tied) {
    View table = parameter("embed");
    Vec d = logits_backward(matmul_transposed(n, table, rows_, config_.dim, config_.vocab));
    add_outer(gradient("embed"), d, n, rows_, config_.vocab, config_.dim);
    dn = matmul(d, table, rows_, config_.vocab, config_.dim);
  } else {
    View weight = parameter("head");
    Vec d = logits_backward(matmul(n, weight, rows_, config_.dim, config_.vocab));
    add_outer(gradient("head"), n, d, rows_, config_.dim, config_.vocab);
    dn = matmul_transposed(d, weight, rows_, config_.vocab, config_.dim);
  }
  return rms_norm_backward(x, parameter("final_norm"), config_.epsilon, dn, gradient("final_norm"));
}

void check(const ModelConfig& config, const Tensors& parameters, std::span<const int32_t> tokens,
           int batch) {
  GW_REQUIRE(config.seq >= 2 && config.heads > 0 && config.dim % config.heads == 0,
             "reference model: bad shape: seq ", config.seq, ", dim ", config.dim, ", heads ",
             config.heads);
  GW_REQUIRE(tokens.size() == static_cast<size_t>(batch * config.seq),
             "reference model: tokens: expected ", batch, " x ", config.seq, ", got ",
             tokens.size());
  GW_REQUIRE(config.moe.experts == 0 || batch % config.moe.groups == 0, "reference model: batch ",
             batch, " is no multiple of ", config.moe.groups, " groups");
  GW_REQUIRE(config.moe.experts == 0 || config.moe.top_k <= config.moe.experts,
             "reference model: top_k ", config.moe.top_k, " of ", config.moe.experts, " experts");
  for (int32_t token : tokens) {
    GW_REQUIRE(token >= 0 && token < config.vocab, "reference model: token ", token,
               " is outside the vocabulary of ", config.vocab);
  }
  auto shapes = parameter_shapes(config);
  GW_REQUIRE(shapes.size() == parameters.size(), "reference model: expected ", shapes.size(),
             " parameters, got ", parameters.size());
  for (const auto& [name, shape] : shapes) {
    size_t size = 1;
    for (int64_t extent : shape) size *= static_cast<size_t>(extent);
    auto found = parameters.find(name);
    GW_REQUIRE(found != parameters.end() && found->second.size() == size,
               "reference model: parameter ", name, ": expected ", size, " numbers");
  }
}

}  // namespace

std::map<std::string, std::vector<int64_t>> parameter_shapes(const ModelConfig& config) {
  int64_t dim = config.dim, hidden = config.hidden;
  std::map<std::string, std::vector<int64_t>> shapes = {{"embed", {config.vocab, dim}},
                                                        {"final_norm", {dim}}};
  if (config.positional) shapes["pos"] = {config.seq, dim};
  if (!config.tied) shapes["head"] = {dim, config.vocab};
  for (int l = 0; l < config.layers; ++l) {
    const int64_t experts = config.moe_of(l).experts;
    for (const char* norm : {"attn_norm", "ffn_norm"}) shapes[layer_name(l, norm)] = {dim};
    for (const char* part : {"attn.q", "attn.k", "attn.v", "attn.o"}) {
      shapes[layer_name(l, part)] = {dim, dim};
    }
    if (experts == 0 || config.moe.residual) {
      const std::string dense = experts == 0 ? "ffn." : "moe.residual.";
      shapes[layer_name(l, dense + "up")] = {dim, hidden};
      if (config.gated) shapes[layer_name(l, dense + "gate")] = {dim, hidden};
      shapes[layer_name(l, dense + "down")] = {hidden, dim};
    }
    if (experts > 0) {
      shapes[layer_name(l, "moe.router")] = {dim, experts};
      shapes[layer_name(l, "moe.up")] = {experts, dim, hidden};
      if (config.gated) shapes[layer_name(l, "moe.gate")] = {experts, dim, hidden};
      shapes[layer_name(l, "moe.down")] = {experts, hidden, dim};
    }
  }
  return shapes;
}

Tensors random_parameters(const ModelConfig& config, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Tensors parameters;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    int64_t size = 1;
    for (int64_t extent : shape) size *= extent;
    bool norm = shape.size() == 1;
    double deviation = norm ? 0.1 : 1 / std::sqrt(static_cast<double>(shape[shape.size() - 2]));
    Vec& value = parameters[name];
    for (int64_t i = 0; i < size; ++i) value.push_back((norm ? 1 : 0) + deviation * normal(engine));
  }
  return parameters;
}

Evaluation evaluate(const ModelConfig& config, const Tensors& parameters,
                    std::span<const int32_t> tokens, int batch) {
  check(config, parameters, tokens, batch);
  return Evaluator(config, parameters, tokens, batch).run();
}

}  // namespace gangway::reference
