// Rows of the random ops. Element i of the whole tensor depends on (key, i) alone, whatever the
// mesh: Philox4x32-10 (runtime/base/rng.h), key words key[0] and key[1], block b holding elements
// 4b .. 4b+3 (f64: 2b, 2b+1).
//
//   uniform  f32 element i: word i % 4 of block i / 4, (word >> 8) * 2^-24; bf16: that rounded
//            down, so that it stays below 1; f64 element i: words h = 2 (i % 2) and h + 1 of block
//            i / 2, the upper 53 bits of (word h, word h + 1) * 2^-53
//   normal   Box-Muller on pairs (u, v) of such uniforms, elements 2 j and 2 j + 1: r = sqrt(-2
//            log(1 - u)); r cos(2 pi v) and r sin(2 pi v)
//
// Elements are numbered in row-major order over the whole tensor. A device that has a part of it
// draws that part alone: its node says how large the whole is and how it was cut, and the device's
// coordinates do the rest.
#include "ir/build/builder.h"
#include "ir/op_table/cost.h"
#include "ir/op_table/factors.h"
#include "ir/op_table/rule.h"
#include "ir/types/sharding.h"

namespace gangway::internal {
namespace {

// Whether the part fits the whole is for the verifier, which knows the mesh.
void need_part(const OpCall& call, const Type& part) {
  const std::vector<int64_t>& whole = call.attrs.ints("whole");
  const std::string& placements = call.attrs.text("placements");
  GW_NEED(call, whole.empty() == placements.empty(), "whole and placements belong together: got ",
          to_string(whole), " and \"", placements, "\"");
  if (whole.empty()) return;
  need_dims(call, "whole", part.dtype);
  GW_NEED(call, whole.size() == part.dims.size(), "whole has another rank than dims: expected ",
          part.dims.size(), " sizes, got ", to_string(whole));
  GW_NEED(call, parse_axis_placements(placements).has_value(),
          "placements must look like \"data: shard(0)\": got \"", placements, "\"");
}

std::vector<Type> random_type(const OpCall& call) {
  need_type(call, 0, "key", i32({2}));
  DType dtype = call.attrs.dtype("dtype");
  GW_NEED(call, is_float(dtype), "dtype must be a float type: got ", to_string(dtype));
  const std::vector<int64_t>& offset = call.attrs.ints("offset");
  GW_NEED(call,
          offset.empty() || (offset.size() == 1 && offset[0] >= 0 && offset[0] <= kElementsMax),
          "offset must be empty or one number of at least 0: got ", to_string(offset));
  const Type type{dtype, need_dims(call, "dims", dtype)};
  need_part(call, type);
  return {type};
}

// Any dimension may be cut, by any axes.
Factors random_factors(const OpCall& call) {
  FactorList list(call);
  list.add(FactorKind::kWhole, 2, 0, -1);
  const std::vector<int64_t>& dims = call.attrs.ints("dims");
  for (size_t dim = 0; dim < dims.size(); ++dim)
    list.add(FactorKind::kPass, dims[dim], -1, static_cast<int>(dim));
  return list.take();
}

OpRow random_row(Op op, std::string_view name, std::string_view doc) {
  return {.op = op,
          .name = name,
          .family = OpFamily::kRandom,
          .attrs = {{"dims", AttrKind::kInts, {}, "the result's sizes", AttrRole::kResultSizes},
                    {"dtype", AttrKind::kDType, {}, "the result's element type"},
                    {"offset", AttrKind::kInts, std::vector<int64_t>{},
                     "where the whole tensor's first element lies in the sequence; empty: 0"},
                    {"whole", AttrKind::kInts, std::vector<int64_t>{},
                     "of a part: the whole tensor's sizes", AttrRole::kWholeSizes},
                    {"placements", AttrKind::kString, std::string(),
                     "of a part: how the whole was cut", AttrRole::kPlacements}},
          .type_rule = random_type,
          .factors = random_factors,
          .no_gradient = "its key is an integer",
          .cost = per_result<12>,
          .doc = doc};
}

}  // namespace

std::vector<OpRow> random_rows() {
  return {
      random_row(Op::random_uniform, "random_uniform",
                 "Uniform over [0, 1) from (key: i32[2], element index i): Philox4x32-10, word "
                 "i % 4 of block i / 4, (word >> 8) * 2^-24, for bf16 rounded down; f64: 53 bits "
                 "of words 2 (i % 2) and the next of block i / 2."),
      random_row(Op::random_normal, "random_normal",
                 "Standard normal from (key: i32[2], element index): Box-Muller on pairs (u, v) of "
                 "the uniforms, r = sqrt(-2 log(1 - u)), r cos(2 pi v) then r sin(2 pi v)."),
  };
}

}  // namespace gangway::internal
