#include "ir/op_table/rows/ring_attention.h"

#include <span>

#include "ir/op_table/rows/composite.h"
#include "ir/op_table/rows/local_ops.h"

namespace gangway::internal {
namespace {

constexpr double kNothingSeen = -1e30;  // exp() of it is 0 in every element type.

// Whether rows are dealt out in stripes: each member has `rows` of them.
bool deals_stripes(const Attrs& attrs, int64_t rows, int64_t members) {
  return attrs.flag("causal") && rows % members == 0;
}

// A node that is cut along its sequence into `members` parts of `rows` rows.
class Ring {
 public:
  explicit Ring(const DistributedCall& c) : c_(c), rows_(c.inputs[0].dim(1)) {}

  bool is_causal() const { return c_.attrs.flag("causal"); }
  bool is_striped() const { return deals_stripes(c_.attrs, rows_, c_.members); }

  // Dimension `dim` has this member's rows; they become its stripes, and the other way round.
  Value to_stripes(Value x, int dim) const {
    return is_striped() ? deal(x, dim, {1, rows_ / c_.members, c_.members}, dim + 2, dim) : x;
  }
  Value from_stripes(Value x, int dim) const {
    return is_striped() ? deal(x, dim, {c_.members, rows_ / c_.members, 1}, dim, dim + 2) : x;
  }

  // Sends this member's part to the next member.
  Value pass_on(Value x) const {
    return x.builder().emit1(Op::permute, {x},
                             {{"axes", c_.axes}, {"to", c_.axes}, {"shift", int64_t{1}}},
                             Loc::current());
  }

  // Runs `op` on the keys that `steps` members, i32[], have passed on; passes starts only where
  // they decide which keys a query sees.
  Values attend(Op op, Values operands, Value member, Value steps) const {
    if (is_causal()) {
      const Value came_round = convert(gt(steps, member), DType::kI32);  // From a later member.
      if (is_striped()) {
        operands.push_back(constant_like(member, 0));
        operands.push_back(came_round);
      } else {
        operands.push_back(member * rows_);
        operands.push_back((member - steps + came_round * c_.members) * rows_);
      }
    }
    return member.builder().emit(op, operands, c_.attrs, Loc::current());
  }

  // Runs `body`, a body of loop(), for each part of the keys but the last. Its iteration is the
  // number of members that have passed the part on.
  Values rotate(const Values& carries, const Values& invariants, const LoopBody& body) const {
    return loop(c_.builder, c_.members - 1, carries, invariants, body);
  }
  Value last_step() const {
    return c_.builder.constant(i32(), static_cast<double>(c_.members - 1));
  }

 private:
  // Sees x[.., rows, ..] as [.., *as, ..], deals dimension `split` out to the members, and joins
  // the parts that each member gets along `concat`.
  Value deal(Value x, int dim, const Dims& as, int split, int concat) const {
    const Dims before = x.type().dims;
    Dims dims(before.begin(), before.begin() + dim);
    dims.insert(dims.end(), as.begin(), as.end());
    dims.insert(dims.end(), before.begin() + dim + 1, before.end());
    const Value dealt = c_.builder.emit1(Op::all_to_all, {reshape(x, dims)},
                                         {{"axes", c_.axes},
                                          {"split_dim", int64_t{split}},
                                          {"concat_dim", int64_t{concat}},
                                          {"parts", c_.members},
                                          {"size", c_.members}},
                                         Loc::current());
    return reshape(dealt, before);
  }

  const DistributedCall& c_;
  const int64_t rows_;
};

// Both have the type of lse. Heads have a dimension of their own, so that a factor of a head is a
// broadcast, which fuses.
struct Attended {
  Value out;  // [batch, queries, heads, width]
  Value lse;  // [batch, heads, queries]
};

Attended merge(const Attended& a, const Attended& b) {
  const Value top = maximum(a.lse, b.lse);
  const Value of_a = exp(a.lse - top), of_b = exp(b.lse - top), total = of_a + of_b;
  const auto share = [&](Value of) {
    return broadcast_in(transpose(of / total, {0, 2, 1}), a.out.type().dims, {0, 1, 2});
  };
  return {a.out * share(of_a) + b.out * share(of_b), log(total) + top};
}

Attended block(const Ring& ring, const Values& qkv, const Type& out, Value member, Value steps) {
  const Values part = ring.attend(Op::attention, qkv, member, steps);
  return {convert(reshape(part[0], out.dims), out.dtype), part[1]};
}

// `qkv`: queries, keys and values as the ring has them, in stripes or not.
Values attend_round(const DistributedCall& c, const Ring& ring, const Values& qkv) {
  const Value& q = qkv[0];
  const Value member = member_index(c);
  const DType wide = accumulator(q.dtype());
  const int64_t heads = c.attrs.integer("heads");
  const Type lse{wide, {q.dim(0), heads, q.dim(1)}};
  const Type out{wide, {q.dim(0), q.dim(1), heads, q.dim(2) / heads}};
  const Values last = ring.rotate(
      {qkv[1], qkv[2], c.builder.constant(out, 0), c.builder.constant(lse, kNothingSeen)},
      {q, member}, [&](const Values& now, const Values& fixed, Value steps) -> Values {
        const Value &k = now[0], &v = now[1];
        const Value next_k = ring.pass_on(k), next_v = ring.pass_on(v);
        const Attended all =
            merge({now[2], now[3]}, block(ring, {fixed[0], k, v}, out, fixed[1], steps));
        return {next_k, next_v, all.out, all.lse};
      });
  const Attended all =
      merge({last[2], last[3]}, block(ring, {q, last[0], last[1]}, out, member, ring.last_step()));
  return {ring.from_stripes(convert(reshape(all.out, q.type().dims), q.dtype()), 1),
          ring.from_stripes(all.lse, 2)};
}

Values distributed_attention(const DistributedCall& c) {
  const Ring ring(c);
  const Value q = ring.to_stripes(c.inputs[0], 1), k = ring.to_stripes(c.inputs[1], 1);
  return attend_round(c, ring, {q, k, ring.to_stripes(c.inputs[2], 1)});
}

Values distributed_packed_attention(const DistributedCall& c) {
  const Ring ring(c);
  return attend_round(c, ring, unpacked(ring.to_stripes(c.inputs[0], 1), Loc::current()));
}

// dq, dk and dv, each with the terms of one part of the keys. `now`: k, v, and the three so far;
// `fixed`: q, out, lse, dout, member.
Values with_terms(const Ring& ring, const Values& now, const Values& fixed, Value steps) {
  Values sums =
      ring.attend(Op::attention_grad, {fixed[0], now[0], now[1], fixed[1], fixed[2], fixed[3]},
                  fixed[4], steps);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = now[i + 2] + convert(sums[i], now[i + 2].dtype());
  return sums;
}

// dq, dk and dv as the ring has them. `qkv` too; `given`: out, lse and dout as the node has them.
Values gradients_round(const DistributedCall& c, const Ring& ring, const Values& qkv,
                       std::span<const Value> given) {
  const Value zeros = c.builder.constant(qkv[0].type().with(accumulator(qkv[0].dtype())), 0);
  const Values fixed = {qkv[0], ring.to_stripes(given[0], 1), ring.to_stripes(given[1], 2),
                        ring.to_stripes(given[2], 1), member_index(c)};
  const Values last =
      ring.rotate({qkv[1], qkv[2], zeros, zeros, zeros}, fixed,
                  [&](const Values& now, const Values& invariants, Value steps) -> Values {
                    const Value next_k = ring.pass_on(now[0]), next_v = ring.pass_on(now[1]);
                    const Values sums = with_terms(ring, now, invariants, steps);
                    return {next_k, next_v, sums[0], ring.pass_on(sums[1]), ring.pass_on(sums[2])};
                  });
  const Values sums = with_terms(ring, last, fixed, ring.last_step());
  // The gradients of keys and values come home with the last pass.
  return {sums[0], ring.pass_on(sums[1]), ring.pass_on(sums[2])};
}

Values distributed_attention_grad(const DistributedCall& c) {
  const Ring ring(c);
  Values qkv;
  for (size_t i = 0; i < 3; ++i) qkv.push_back(ring.to_stripes(c.inputs[i], 1));
  Values results = gradients_round(c, ring, qkv, std::span(c.inputs).subspan(3));
  for (Value& x : results) x = ring.from_stripes(convert(x, c.inputs[0].dtype()), 1);
  return results;
}

Values distributed_packed_attention_grad(const DistributedCall& c) {
  const Ring ring(c);
  const Values qkv = unpacked(ring.to_stripes(c.inputs[0], 1), Loc::current());
  Values results = gradients_round(c, ring, qkv, std::span(c.inputs).subspan(1));
  for (Value& x : results) x = convert(x, c.inputs[0].dtype());
  return {ring.from_stripes(packed(results, Loc::current()), 1)};
}

// The type of the queries, which may be a part of a packed tensor.
Type type_of_queries(const OpCall& call) {
  Type q = call.inputs[0];
  if (q.rank() == 4) q.dims.erase(q.dims.begin() + 2);
  return q;
}

// Bytes that a member sends. Keys and values go round except for the last pass. With stripes,
// `dealt` tensors and the logsumexp are dealt out or come back too.
double ring_sends(const OpCall& call, int64_t members, int dealt) {
  const Type q = type_of_queries(call);
  const auto n = static_cast<double>(members);
  const double bytes = static_cast<double>(q.bytes()) / n;
  const double sent = 2 * bytes * (n - 1);
  if (!deals_stripes(call.attrs, q.dims[1] / members, members)) return sent;
  const Type lse{accumulator(q.dtype), {q.dims[0], call.attrs.integer("heads"), q.dims[1]}};
  return sent + (dealt * bytes + static_cast<double>(lse.bytes()) / n) * (n - 1) / n;
}

// Stripes are dealt for q, k, v and the result.
double attention_sends(const OpCall& call, int64_t members) { return ring_sends(call, members, 4); }

// Stripes are dealt for those four, the gradient of `out`, and the gradients of q, k and v. The
// gradients of k and v go all the way round, in the type of sums.
double attention_grad_sends(const OpCall& call, int64_t members) {
  const Type q = type_of_queries(call);
  const auto round = static_cast<double>(2 * q.with(accumulator(q.dtype)).bytes());
  return ring_sends(call, members, 8) + round;
}

}  // namespace

Values unpacked(Value qkv, Loc loc) {
  const int axis = qkv.rank() - 2;
  Dims dims = qkv.type().dims;
  dims.erase(dims.begin() + axis);
  Values parts;
  for (int64_t i = 0; i < qkv.dim(axis); ++i)
    parts.push_back(reshape(slice(qkv, axis, i, i + 1, 1, loc), dims, loc));
  return parts;
}

Value packed(const Values& parts, Loc loc) {
  Values wide;
  for (const Value& part : parts) {
    Dims dims = part.type().dims;
    dims.insert(dims.end() - 1, 1);
    wide.push_back(reshape(part, dims, loc));
  }
  return concat(wide, parts[0].rank() - 1, loc);
}

DistributedOp ring_attention() {
  return {
      .name = kRingAttention,
      .build = distributed_attention,
      .sent_bytes = attention_sends,
      .doc = "the sequence cut: keys and values go round, causal rows are dealt out in stripes"};
}

DistributedOp ring_attention_grad() {
  return {.name = kRingAttention,
          .build = distributed_attention_grad,
          .sent_bytes = attention_grad_sends,
          .doc = "the sequence cut: keys, values and their gradients go round"};
}

DistributedOp packed_ring_attention() {
  DistributedOp packed = ring_attention();
  packed.build = distributed_packed_attention;
  return packed;
}

DistributedOp packed_ring_attention_grad() {
  DistributedOp packed = ring_attention_grad();
  packed.build = distributed_packed_attention_grad;
  return packed;
}

}  // namespace gangway::internal
