// Tests the compiler's output over random meshes, with random placements and orders of cuts of
// parameters and results, and random annotations inside functions.
//
// GW_FUNCTIONS: number of functions of each kind.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "ir/build/autodiff.h"
#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/scan.h"
#include "runtime/base/error.h"
#include "tests/numerics/against_whole.h"
#include "tests/support/random_batch_graph.h"
#include "tests/support/random_placements.h"

namespace gangway::numerics {
namespace {

using gangway::tests::Parts;
using gangway::tests::random_placements;
using gangway::tests::random_priorities;

// Places a third of the results; the compiler chooses the placements of the others.
void place_results(std::mt19937_64& random, const Function& function, CallContext& context) {
  for (const ValueId result : function.results) {
    context.result_placements.push_back(
        random() % 3 == 0
            ? random_placements(random, function.mesh, function.types[result], Parts::kEqual)
            : AxisPlacements{});
  }
}

class Graph {
 public:
  Graph(std::mt19937_64& random, const Mesh& mesh, int64_t n)
      : n_(n),
        square_(f64({n, n})),
        row_(f64({n})),
        flat_(f64({n * n})),
        random_(random),
        mesh_(mesh),
        b_("graph", mesh) {
    for (int i = 0; i < 4; ++i) values_.push_back(parameter(cat("x", i), square_));
    keep(parameter("row", row_));
    keep(parameter("flat", flat_));
    index_ = parameter("index", i32({n_}));
    key_ = b_.parameter("key", i32({2}));
  }

  Function build() {
    for (size_t i = 2 + below(8); i > 0; --i) step();
    for (size_t i = 1 + below(3); i > 0; --i) b_.result(cat("r", i), any({}));
    if (below(2) == 0) differentiate();
    return b_.build();
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  void keep(Value value) { values_.push_back(below(4) == 0 ? annotated(value) : value); }

  // Adds the gradients of a loss. Propagation chooses their placements.
  void differentiate() {
    const std::vector<Value> of(values_.begin(), values_.begin() + 4);
    const std::vector<Value> found = gradients(mean(square(any(square_))), of);
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].empty()) b_.result(cat("d", i), found[i]);
    }
  }

  Value parameter(const std::string& name, const Type& type) {
    const AxisPlacements placements = random_placements(random_, mesh_, type, Parts::kEqual);
    const Value value = b_.parameter(name, type, placements);
    if (below(2) == 0) b_.set_priorities(value, random_priorities(random_, placements.size()));
    return value;
  }

  Value annotated(Value x) {
    return at_->shard(x, random_placements(random_, mesh_, x.type(), Parts::kAny),
                      static_cast<int>(below(3)));
  }

  Value any(const std::optional<Type>& type) {
    std::vector<Value> fitting;
    for (const Value& value : values_) {
      if (!type || value.type() == *type) fitting.push_back(value);
    }
    return fitting[below(fitting.size())];
  }

  void step() {
    const Value x = any(square_), y = any(square_), row = any(row_), z = any({});
    switch (below(is_inside_ ? 19 : 21)) {
      case 0: keep(x + y); break;
      case 1: keep(x * y); break;
      case 2: keep(maximum(x, y)); break;
      case 3: keep(dot(x, y)); break;
      case 4: keep(dot(transpose(x), y)); break;
      case 5: keep(sum(x, {static_cast<int>(below(2))})); break;
      case 6: keep(x * row); break;
      case 7: keep(reshape(x, {n_ * n_})); break;
      case 8: keep(reshape(any(flat_), {n_, n_})); break;
      case 9: keep(x + broadcast_in(row, {n_, n_}, {0})); break;
      case 10: keep(take(x, index_)); break;
      case 11: keep(scatter_add(index_, x, n_)); break;
      case 12: keep(softmax(x)); break;
      case 13: keep(tanh(z)); break;
      case 14: keep(z * sum(row)); break;
      case 15: keep(annotated(z)); break;
      case 16: keep(x * random_uniform(key_, square_)); break;
      case 17: keep(random_normal(key_, flat_)); break;
      case 18: keep(x + iota(*at_, square_, static_cast<int>(below(2)))); break;
      default: loop(x, y, row, z); break;
    }
  }

  // A scan whose body is random too, with a carry, a sum, values that iterations share, slices and
  // stacks.
  void loop(Value x, Value y, Value row, Value z) {
    const auto length = static_cast<int64_t>(below(3)) + 1;
    const auto spread = [&](Value v) {
      return broadcast_in(v, {length, n_, n_}, {1, 2}) + iota(b_, f64({length, n_, n_}), 0);
    };
    ScanOperands operands{.length = length, .reverse = below(2) == 0};
    operands.carries.set("x", x);
    operands.carries.set("z", sum(z));
    for (const auto& [name, value] :
         {std::pair("y", y), {"row", row}, {"index", index_}, {"key", key_}})
      operands.invariants.set(name, value);
    operands.stacked.set("slice", spread(any(square_)));
    const Scanned done = scan(b_, operands, [&](const ScanStep& at) { return iteration(at); });
    keep(done.carries["x"]);
    keep(done.carries["z"]);
    keep(sum(done.stacked["kept"], {0}));
    keep(reshape(slice(done.stacked["kept"], 0, 0, 1), {n_, n_}));
  }

  Scanned iteration(const ScanStep& at) {
    const std::vector<Value> outside = std::exchange(values_, {});
    const Value index = std::exchange(index_, at.invariants["index"]);
    const Value key = std::exchange(key_, at.invariants["key"]);
    at_ = &at.builder;
    is_inside_ = true;
    for (Value value :
         {Value(at.carries["x"]), Value(at.invariants["y"]), Value(at.slices["slice"])})
      keep(value);
    keep(at.invariants["row"]);
    keep(at.carries["z"]);
    keep(reshape(any(square_), {n_ * n_}));
    for (size_t i = 1 + below(4); i > 0; --i) step();
    Scanned next;
    next.carries.set("x", any(square_));
    const Value term = mean(any(square_));
    next.carries.set("z", below(2) == 0 ? Value(at.carries["z"]) + term : any(f64({})));
    next.stacked.set("kept", any(square_));
    values_ = outside;
    index_ = index;
    key_ = key;
    at_ = &b_;
    is_inside_ = false;
    return next;
  }

  const int64_t n_;
  const Type square_, row_, flat_;
  std::mt19937_64& random_;
  const Mesh mesh_;
  Builder b_;
  Builder* at_ = &b_;       // The builder of the body that is traced, else b_.
  bool is_inside_ = false;  // True while a body is traced.
  std::vector<Value> values_;
  Value index_, key_;
};

TEST(ShardedEqualsWhole, AnyCutsOverAnyAxesGiveTheWholeResults) {
  expect_as_whole(GW_FUNCTIONS, [](std::mt19937_64& random, CallContext& context) {
    const Mesh mesh = gangway::tests::random_mesh(random);
    const int64_t n = random() % 3 == 0 ? 10 : 12;  // 10 rows cut in 3, 4, 6 or 12: padded parts.
    Function function = Graph(random, mesh, n).build();
    place_results(random, function, context);
    return function;
  });
}

TEST(ShardedEqualsWhole, AnnotatedGraphsOverABatchGiveTheWholeResults) {
  expect_as_whole(GW_FUNCTIONS, [](std::mt19937_64& random, CallContext& context) {
    const Mesh mesh = gangway::tests::random_mesh(random);
    Function function =
        gangway::tests::random_annotated_function(random, mesh, DType::kF64, random() % 2 == 0);
    place_results(random, function, context);
    return function;
  });
}

}  // namespace
}  // namespace gangway::numerics
