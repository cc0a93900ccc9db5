#include "tests/support/random_batch_graph.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "tests/support/random_placements.h"

namespace gangway::tests {
namespace {

using Random = std::mt19937_64;
constexpr int64_t kClasses = 5;

enum class Cuts { kRowsOfData, kRandom };

class BatchGraph {
 public:
  BatchGraph(Random& random, const Mesh& mesh, DType dtype, bool remat, Cuts cuts)
      : random_(random), mesh_(mesh), dtype_(dtype), remat_(remat), cuts_(cuts), b_("batch", mesh) {
    const AxisPlacements rows = {{"data", shard(0)}};
    auto floats = [&](const char* name, Dims dims, const AxisPlacements& placements) {
      weights_.push_back(parameter(name, {dtype_, std::move(dims)}, placements));
      return weights_.back();
    };
    keep(floats("x", {kBatchRows, 4}, rows), true);
    keep(floats("y", {kBatchRows, 4}, rows), true);
    keep(floats("z", {kBatchRows, 3, 4}, rows), true);
    index_ = parameter("index", i32({kBatchRows}), rows);
    square_ = floats("square", {4, 4}, {});
    row_ = floats("row", {4}, {});
    table_ = floats("table", {kClasses, 4}, {});
    experts_ = floats("experts", {2, 4, 4}, {});
    key_ = b_.parameter("key", i32({2}), {});
  }

  Function build() {
    for (size_t i = 2 + below(6); i > 0; --i) stretch();
    std::vector<Value> terms;
    for (size_t i = 0; i < 3; ++i) {
      Value value = values_[below(values_.size())].value;
      b_.result("value." + std::to_string(i), value);
      terms.push_back(mean(tanh(value)));
    }
    Value loss = terms[0] + terms[1] * terms[2];
    b_.result("loss", loss);
    for (Value gradient : gradients(loss, weights_))
      b_.result("gradient." + std::to_string(b_.function().results.size()), gradient);
    return b_.build();
  }

 private:
  struct Made {
    Value value;
    bool is_exact = false;  // It depends on no sum over a dimension that may be cut.
  };

  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }

  Value parameter(const char* name, const Type& type, const AxisPlacements& by_rows) {
    if (cuts_ == Cuts::kRowsOfData) return b_.parameter(name, type, by_rows);
    const AxisPlacements drawn = random_placements(random_, mesh_, type, Parts::kEqual);
    const Value value = b_.parameter(name, type, drawn);
    if (below(2) == 0) b_.set_priorities(value, random_priorities(random_, drawn.size()));
    return value;
  }

  void keep(Value value, bool is_exact) {
    if (cuts_ == Cuts::kRandom && below(4) == 0) {
      value = b_.shard(value, random_placements(random_, mesh_, value.type(), Parts::kAny),
                       static_cast<int>(below(3)));
    }
    values_.push_back({value, is_exact});
  }
  // Keeps a sum over a dimension other than the batch.
  void keep_sum(Value value, bool is_exact) { keep(value, is_exact && cuts_ != Cuts::kRandom); }

  const Made& any() { return values_[below(values_.size())]; }
  // A value of the shape of x, or of z if the rank is 3; both are cut by rows.
  Made rows(int rank) {
    std::vector<Made> fitting;
    for (const Made& made : values_) {
      if (made.value.type() == values_[rank == 2 ? 0 : 2].value.type()) fitting.push_back(made);
    }
    return fitting[below(fitting.size())];
  }
  Made exact_rows() {
    Made made = rows(2);
    return made.is_exact ? made : values_[below(2)];
  }

  void stretch() {
    std::optional<Builder::Region> region;
    if (below(2) == 0 && remat_) region.emplace(b_);
    for (size_t i = 1 + below(3); i > 0; --i) step();
  }

  void step() {
    switch (below(6)) {
      case 0:
      case 1: elementwise(); break;
      case 2: reduction(); break;
      case 3: product(); break;
      case 4: composite(); break;
      default: shape_or_choice(); break;
    }
  }

  void elementwise() {
    Made a = rows(below(2) ? 2 : 3), c = any();
    const bool same = a.value.type() == c.value.type(), both = a.is_exact && c.is_exact;
    switch (below(9)) {
      case 0: keep(tanh(a.value), a.is_exact); break;
      case 1: keep(exp(-square(a.value)), a.is_exact); break;
      case 2: keep(gelu(c.value), c.is_exact); break;
      case 3: keep(a.value * 0.5 + 1.0, a.is_exact); break;
      case 4: keep(a.value * tanh(row_), a.is_exact); break;
      case 5: keep(silu(a.value) - sin(a.value), a.is_exact); break;
      case 6:
        if (same) keep(a.value / (square(c.value) + 1.0), both);
        break;
      case 7:
        if (same && both) keep(maximum(a.value, c.value), true);
        break;
      default:
        if (c.value.rank() == 0) keep(a.value * tanh(c.value), false);
        break;
    }
  }

  void reduction() {
    Made a = rows(2), c = rows(3);
    switch (below(8)) {
      case 0: keep(sum(a.value, {0}), false); break;
      case 1: keep_sum(sum(a.value, {1}), a.is_exact); break;
      case 2: keep_sum(mean(c.value, {1}), c.is_exact); break;
      case 3: keep(mean(c.value), false); break;
      case 4: keep(sum(c.value, {0, 2}), false); break;
      case 5: keep(convert(sum_squares(a.value), dtype_), false); break;
      case 6: keep_sum(cumsum(c.value, 1), c.is_exact); break;
      default:
        if (c.is_exact) keep(reduce_max(c.value, {1}), true);
        break;
    }
  }

  void product() {
    Made a = rows(2), c = rows(3), d = rows(2);
    switch (below(5)) {
      case 0: keep_sum(dot(a.value, square_), a.is_exact); break;
      case 1: keep_sum(dot(c.value, square_), c.is_exact); break;
      case 2: keep(dot(transpose(a.value), d.value), false); break;
      case 3:
        keep_sum(
            dot_general(
                c.value, c.value,
                {.lhs_batch = {0}, .rhs_batch = {0}, .lhs_contract = {2}, .rhs_contract = {2}}),
            c.is_exact);
        break;
      default: keep_sum(dot(reshape(c.value, {kBatchRows * 3, 4}), square_), c.is_exact); break;
    }
  }

  void composite() {
    Made a = rows(2), c = rows(3);
    switch (below(7)) {
      case 0: keep(softmax(any().value.rank() > 0 ? a.value : c.value), false); break;
      case 1: keep_sum(rms_norm(c.value, row_), c.is_exact); break;
      case 2: keep_sum(layer_norm(a.value, row_, row_), a.is_exact); break;
      case 3: {
        Value labels = where(lt(index_, 4), index_, 0);
        keep_sum(convert(cross_entropy(a.value, labels), dtype_), a.is_exact);
        break;
      }
      case 4:
        keep_sum(attention(c.value, c.value, c.value, {.heads = 2, .causal = below(2) == 0}),
                 c.is_exact);
        break;
      case 5: keep(take(table_, index_), true); break;
      default: mixture(); break;
    }
  }

  // Each row of the batch is a group of its own.
  void mixture() {
    Made c = rows(3);
    Value expert = where(gt(values_[2].value, 0.0), b_.constant(i32({kBatchRows, 3, 4}), 1), 0);
    expert = slice(expert, 2, 0, 1);
    Route route = moe_route(expert, 2, below(2) == 0 ? 0 : 2);
    Value out = grouped_dot(moe_dispatch(c.value, route), experts_, route);
    Value gate = convert(logistic(slice(c.value, 2, 1, 2)), dtype_);
    keep_sum(moe_combine(out, gate, route), c.is_exact);
  }

  void shape_or_choice() {
    Made a = rows(2), c = rows(3), exact = exact_rows();
    switch (below(10)) {
      case 0: keep(concat({a.value, a.value}, 1), a.is_exact); break;
      case 1: keep(pad(slice(a.value, 1, 1, 3), 1, 1, 1, 0.25), a.is_exact); break;
      case 2: keep(transpose(c.value, {0, 2, 1}), c.is_exact); break;
      case 3: keep(transpose(transpose(a.value)), a.is_exact); break;
      case 4: keep(sort(exact.value).first, true); break;
      case 5: keep(top_k(exact.value, 2).first, true); break;
      case 6: keep(scatter_add(index_, a.value, kClasses), false); break;
      case 7:
        keep(a.value + iota(b_, a.value.type(), static_cast<int>(below(2))), a.is_exact);
        break;
      case 8: keep(a.value * random_uniform(key_, a.value.type()), a.is_exact); break;
      default:
        keep(where(gt(exact.value, 0.0), a.value, b_.constant(a.value.type(), 0.5)), a.is_exact);
    }
  }

  Random& random_;
  const Mesh mesh_;
  DType dtype_;
  bool remat_;
  Cuts cuts_;
  Builder b_;
  std::vector<Made> values_;
  std::vector<Value> weights_;  // Every float parameter.
  Value index_, square_, row_, table_, experts_, key_;
};

}  // namespace

Function random_batch_function(Random& random, const Mesh& mesh, DType dtype, bool remat) {
  return BatchGraph(random, mesh, dtype, remat, Cuts::kRowsOfData).build();
}

Function random_annotated_function(Random& random, const Mesh& mesh, DType dtype, bool remat) {
  return BatchGraph(random, mesh, dtype, remat, Cuts::kRandom).build();
}

std::vector<Literal> random_arguments(Random& random, const Function& function) {
  std::uniform_real_distribution<double> real(-1, 1);
  std::vector<Literal> arguments;
  for (size_t p = 0; p < function.parameters.size(); ++p) {
    Literal literal = filled(function.types[p], 0);
    for (double& value : literal.values)
      value =
          is_float(literal.type.dtype) ? real(random) : static_cast<double>(random() % kClasses);
    round_values(literal);
    arguments.push_back(std::move(literal));
  }
  return arguments;
}

}  // namespace gangway::tests
