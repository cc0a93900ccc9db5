#include "ir/transforms/conversions/expert_exchange.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/build/builder.h"

namespace gangway {
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

// The sizes of runs, cut to the rows that there are.
Value sizes_within(Value sizes, int64_t rows) {
  Value end = cumsum(sizes, 1);
  return minimum(end, rows) - minimum(end - sizes, rows);
}

// Places of the rows in the order of these numbers; rows that have another number than 0 to runs -
// 1 have none.
Route order_by(Value number, int64_t runs) {
  return moe_route(reshape(number, {1, number.type().elements(), 1}), runs);
}

Value ones(Value like, const Route& route) {
  return like.builder().constant(route.token_slot.type().with(like.dtype()), 1, Loc::current());
}

}  // namespace

int64_t rows_bound(double bound, int64_t rows, int64_t members) {
  const double most = static_cast<double>(rows) * static_cast<double>(members);
  const double wanted = std::ceil(bound * static_cast<double>(rows));
  return static_cast<int64_t>(std::max(1.0, std::min(most, wanted)));
}

ExpertExchange::ExpertExchange(ExchangeShape shape, Value sizes) : shape_(std::move(shape)) {
  const int64_t experts = sizes.dim(1), members = shape_.members, own = experts / members;
  if (shape_.groups > 1) {
    sorted_ = order_by(run_of_each_row(sizes, shape_.slots), experts);
    sizes = sorted_.sizes;
  } else {
    sizes = sizes_within(sizes, shape_.slots);
  }
  Value by_member = reshape(sizes, {members, own});
  to_members_ = sum(by_member, {1});
  // Number of rows that each member sends for each expert of this device.
  Value come = sizes.builder().emit1(Op::all_to_all, {reshape(by_member, {members, 1, own})},
                                     {{"axes", shape_.axes},
                                      {"split_dim", int64_t{0}},
                                      {"concat_dim", int64_t{1}},
                                      {"parts", members},
                                      {"size", members}},
                                     Loc::current());
  Value run = run_of_each_row(reshape(come, {1, experts}), shape_.bound);
  by_expert_ = order_by(where(lt(run, experts), run - run / own * own, -1), own);
  from_members_ = sum(reshape(come, {members, own}), {1});
}

ExpertExchange::ExpertExchange(ExchangeShape shape, const std::vector<Value>& values)
    : shape_(std::move(shape)),
      by_expert_{.slot_token = values.at(1), .token_slot = values.at(2), .sizes = values.at(0)},
      to_members_(values.at(3)),
      from_members_(values.at(4)) {
  if (shape_.groups == 1) return;
  sorted_.slot_token = values.at(5);
  sorted_.token_slot = values.at(6);
}

std::vector<Value> ExpertExchange::values() const {
  std::vector<Value> all = {by_expert_.sizes, by_expert_.slot_token, by_expert_.token_slot,
                            to_members_, from_members_};
  if (shape_.groups > 1) all.insert(all.end(), {sorted_.slot_token, sorted_.token_slot});
  return all;
}

Value ExpertExchange::there(Value x) const {
  x = reshape(x, {1, rows(), x.dim(2)});
  if (shape_.groups > 1) x = moe_dispatch(x, sorted_);
  return moe_dispatch(exchanged(x, to_members_, shape_.bound, true), by_expert_);
}

Value ExpertExchange::here(Value y) const {
  y = moe_combine(y, ones(y, by_expert_), by_expert_);
  y = exchanged(y, from_members_, rows(), false);
  if (shape_.groups > 1) y = moe_combine(y, ones(y, sorted_), sorted_);
  return reshape(y, {shape_.groups, shape_.slots, y.dim(2)});
}

// [1, rows, d] -> [1, bound, d]
Value ExpertExchange::exchanged(Value x, Value sizes, int64_t bound, bool must_fit) const {
  const int64_t width = x.dim(2);
  const std::vector<Value> got = x.builder().emit(
      Op::ragged_all_to_all, {reshape(x, {x.dim(1), width}), sizes},
      {{"axes", shape_.axes}, {"parts", shape_.members}, {"bound", bound}, {"must_fit", must_fit}},
      Loc::current());
  return reshape(got[0], {1, bound, width});
}

}  // namespace gangway
