#include "ir/op_table/rows/dropless_experts.h"

#include <algorithm>
#include <cmath>

#include "ir/op_table/rows/composite.h"
#include "ir/op_table/rows/local_ops.h"

namespace gangway::internal {
namespace {

// For each row, the number of the run [0, sizes[0]), [sizes[0], sizes[0] + sizes[1]) ... that holds
// it; rows behind the last run get the number of runs: sizes i32[groups, runs] -> i32[groups,
// rows].
Value run_of_each_row(Value sizes, int64_t rows) {
  const int64_t runs = sizes.dim(1);
  const Dims dims = {sizes.dim(0), rows, runs};
  Value end = broadcast_in(cumsum(sizes, 1), dims, {0, 2});
  Value row = iota(sizes.builder(), i32(dims), 1);
  return sum(convert(ge(row, end), DType::kI32), {2});
}

// How rows go to the devices of their experts, and back.
class Exchange {
 public:
  Exchange(const LoweringCall& c, Value sizes, int64_t slots)
      : c_(c),
        rows_(sizes.dim(0) * slots),
        experts_(sizes.dim(1)),
        own_(experts_ / c.members),
        bound_(rows_bound(c.attrs.real("bound"), rows_, c.members)) {
    sort_ = moe_route(reshape(run_of_each_row(sizes, slots), {1, rows_, 1}), experts_);
    Value by_member = reshape(sort_.sizes, {c.members, own_});
    to_members_ = sum(by_member, {1});
    // Number of rows that each member sends for each expert of this device.
    Value come = c.builder.emit1(Op::all_to_all, {reshape(by_member, {c.members, 1, own_})},
                                 {{"axes", c.axes},
                                  {"split_dim", int64_t{0}},
                                  {"concat_dim", int64_t{1}},
                                  {"parts", c.members},
                                  {"size", c.members}},
                                 Loc::current());
    come_ = reshape(come, {1, c.members * own_});
    Value run = run_of_each_row(come_, bound_);
    Value expert = where(lt(run, c.members * own_), run - run / own_ * own_, -1);
    gather_ = moe_route(reshape(expert, {1, bound_, 1}), own_);
  }

  // x[groups, slots, d] -> [1, bound, d], by expert.
  Value there(Value x) {
    Value sorted = moe_dispatch(reshape(x, {1, rows_, x.dim(2)}), sort_);
    Value got = exchange(sorted, to_members_, bound_, true);
    return moe_dispatch(got, gather_);
  }
  // The inverse; rows of no expert are zeros.
  Value here(Value y, const Dims& dims) {
    Value received = moe_combine(y, ones(y, gather_), gather_);
    Value from_members = sum(reshape(come_, {c_.members, own_}), {1});
    Value sorted = exchange(received, from_members, rows_, false);
    return reshape(moe_combine(sorted, ones(y, sort_), sort_), dims);
  }
  Value sizes() const { return gather_.sizes; }

 private:
  Value exchange(Value rows, Value sizes, int64_t bound, bool must_fit) {
    const int64_t width = rows.dim(2);
    const Values got = c_.builder.emit(
        Op::ragged_all_to_all, {reshape(rows, {rows.dim(1), width}), sizes},
        {{"axes", c_.axes}, {"parts", c_.members}, {"bound", bound}, {"must_fit", must_fit}},
        Loc::current());
    return reshape(got[0], {1, bound, width});
  }
  static Value ones(Value like, const Route& route) {
    return like.builder().constant(route.token_slot.type().with(like.dtype()), 1, Loc::current());
  }

  const LoweringCall& c_;
  const int64_t rows_, experts_, own_, bound_;
  Route sort_, gather_;
  Value to_members_, come_;
};

Values lower_product(const LoweringCall& c) {
  const Value x = c.inputs[0], w = c.inputs[1];
  Exchange exchange(c, c.inputs[2], x.dim(1));
  const bool transposed = c.attrs.flag("transpose_w");
  Value y = c.builder.emit1(Op::grouped_dot, {exchange.there(x), w, exchange.sizes()},
                            {{"transpose_w", transposed}}, Loc::current());
  return {exchange.here(y, {x.dim(0), x.dim(1), y.dim(2)})};
}

Values lower_grad_w(const LoweringCall& c) {
  const Value x = c.inputs[0], dy = c.inputs[1];
  Exchange exchange(c, c.inputs[2], x.dim(1));
  return {c.builder.emit1(Op::grouped_dot_grad_w,
                          {exchange.there(x), exchange.there(dy), exchange.sizes()}, {},
                          Loc::current())};
}

// Rows that are routed evenly: all but those that stay are sent, and come back as wide as they are
// then.
double product_sends(const OpCall& call, int64_t members) {
  const Type& x = call.inputs[0];
  const auto n = static_cast<double>(members);
  const auto width =
      static_cast<double>(call.inputs[1].dims[call.attrs.flag("transpose_w") ? 1 : 2]);
  const auto there = static_cast<double>(x.bytes());
  const double back = there / static_cast<double>(std::max<int64_t>(1, x.dims[2])) * width;
  return (there + back) / n * (n - 1) / n;
}

// Both operands lie there already: one went into the product that this is the gradient of, the
// other into that for the gradient of its rows.
double grad_w_sends(const OpCall&, int64_t) { return 0; }

}  // namespace

int64_t rows_bound(double bound, int64_t rows, int64_t members) {
  const double most = static_cast<double>(rows) * static_cast<double>(members);
  const double wanted = std::ceil(bound * static_cast<double>(rows));
  return static_cast<int64_t>(std::max(1.0, std::min(most, wanted)));
}

Lowering dropless_product() {
  return {.name = kDroplessExperts,
          .build = lower_product,
          .sent_bytes = product_sends,
          .doc = "experts and groups cut: rows go to their experts' devices and back"};
}

Lowering dropless_grad_w() {
  return {.name = kDroplessExperts,
          .build = lower_grad_w,
          .sent_bytes = grad_w_sends,
          .doc = "experts and groups cut: rows of both operands go to their experts' devices"};
}

}  // namespace gangway::internal
