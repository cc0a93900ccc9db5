#include "ir/op_table/rows/vocabulary_parallel.h"

#include <limits>

#include "ir/op_table/rows/composite.h"
#include "ir/op_table/rows/local_ops.h"

namespace gangway::internal {
namespace {

// Counted from the first of this device's `rows`; those of other devices are out of range.
Value own_index(const DistributedCall& c, Value index, int64_t rows) {
  return index - member_index(c) * rows;
}

Values distributed_take(const DistributedCall& c) {
  const Value table = c.inputs[0];
  return {take(table, own_index(c, c.inputs[1], table.dim(0)))};
}

Values distributed_scatter_add(const DistributedCall& c) {
  const int64_t rows = c.call.attrs.integer("rows") / c.members;
  return {scatter_add(own_index(c, c.inputs[0], rows), c.inputs[1], rows)};
}

double sends_nothing(const OpCall& /*call*/, int64_t /*members*/) { return 0; }

int64_t classes_of(const DistributedCall& c) { return c.call.inputs[0].dims.back(); }

Value is_below(Value index, int64_t size) { return logical_and(ge(index, 0), lt(index, size)); }

constexpr double kNoClass = std::numeric_limits<double>::quiet_NaN();

// For each row: its largest logit in this device's part, and in all parts.
struct Tops {
  Value own, all;
};
Tops tops_of(const DistributedCall& c, Value logits) {
  const Value own = raise(reduce_max(logits, {-1}), Loc::current());
  return {own, all_reduce(c, {own}, Reduction::kMax)[0]};
}

// The op over the part gives log_sum of it, and its loss: that less what the label's logit has over
// the part's largest, where the label is in the part. All of it then counts from the largest of all
// parts, so that what all logits share costs no digits.
Values distributed_cross_entropy(const DistributedCall& c) {
  const Value logits = c.inputs[0], labels = c.inputs[1];
  const Value own_labels = own_index(c, labels, logits.dim(-1));
  const Values own = c.builder.emit(Op::cross_entropy, {logits, own_labels}, {}, Loc::current());
  const Tops top = tops_of(c, logits);
  const Value below = top.all - top.own;
  const Value minus_logit = where(is_below(own_labels, logits.dim(-1)), own[0] - own[1] + below, 0);
  const Values sums = all_reduce(c, {exp(own[1] - below), minus_logit}, Reduction::kSum);
  const Value log_sum = log(sums[0]);
  return {where(is_below(labels, classes_of(c)), log_sum + sums[1], kNoClass), log_sum};
}

Values distributed_cross_entropy_grad(const DistributedCall& c) {
  const Value logits = c.inputs[0], labels = c.inputs[1];
  const Value x = raise(logits, Loc::current());
  const Value word = iota(c.builder, x.type().with(DType::kI32), x.rank() - 1);
  const Value own_labels = own_index(c, labels, logits.dim(-1));
  const Value hit = convert(eq(word, along_last(own_labels, x, Loc::current())), x.dtype());
  const Value dloss = where(is_below(labels, classes_of(c)), c.inputs[3], kNoClass);
  const Value shifted = x - along_last(tops_of(c, logits).all, x, Loc::current());
  const Value p = exp(shifted - along_last(c.inputs[2], x, Loc::current()));
  return {convert((p - hit) * along_last(dloss, x, Loc::current()), logits.dtype())};
}

double bytes_of_rows(const OpCall& call) {
  const Type& logits = call.inputs[0];
  const double rows = static_cast<double>(logits.elements()) /
                      static_cast<double>(std::max<int64_t>(1, logits.dims.back()));
  return rows * static_cast<double>(size_of(accumulator(logits.dtype)));
}

// Three numbers of each row are all-reduced.
double cross_entropy_sends(const OpCall& call, int64_t members) {
  return all_reduce_bytes(3 * bytes_of_rows(call), members);
}

double cross_entropy_grad_sends(const OpCall& call, int64_t members) {
  return all_reduce_bytes(bytes_of_rows(call), members);
}

}  // namespace

DistributedOp vocabulary_take() {
  return {.name = kVocabularyParallel,
          .build = distributed_take,
          .sent_bytes = sends_nothing,
          .doc = "the table cut by rows: each device finds its own, others are zeros"};
}

DistributedOp vocabulary_scatter_add() {
  return {.name = kVocabularyParallel,
          .build = distributed_scatter_add,
          .sent_bytes = sends_nothing,
          .doc = "the result cut by rows: each device adds up the updates of its own"};
}

DistributedOp vocabulary_cross_entropy() {
  return {.name = kVocabularyParallel,
          .build = distributed_cross_entropy,
          .sent_bytes = cross_entropy_sends,
          .doc = "the classes cut: three numbers of each row are all-reduced, no logits are sent"};
}

DistributedOp vocabulary_cross_entropy_grad() {
  return {.name = kVocabularyParallel,
          .build = distributed_cross_entropy_grad,
          .sent_bytes = cross_entropy_grad_sends,
          .doc = "the classes cut: the largest logit of each row is all-reduced"};
}

}  // namespace gangway::internal
