#include "ir/op_table/op.h"

#include <algorithm>

#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

std::vector<OpRow> assemble() {
  std::vector<OpRow> table(kOpCount);
  std::vector<bool> filled(kOpCount, false);
  for (auto* family :
       {internal::elementwise_rows, internal::shape_rows, internal::reduce_rows, internal::dot_rows,
        internal::index_rows, internal::random_rows, internal::control_rows, internal::body_rows,
        internal::norm_rows, internal::attention_rows, internal::packed_attention_rows,
        internal::moe_rows, internal::optimizer_rows, internal::collective_rows,
        internal::exchange_rows}) {
    for (OpRow& row : family()) {
      auto at = static_cast<size_t>(row.op);
      GW_ASSERT(!filled[at], "two rows for op ", row.name);
      filled[at] = true;
      table[at] = std::move(row);
    }
  }
  for (size_t i = 0; i < filled.size(); ++i) GW_ASSERT(filled[i], "op ", i, " has no row");
  return table;
}

const std::vector<OpRow>& table() {
  static const std::vector<OpRow> rows = assemble();
  return rows;
}

std::string expected_count(int low, int high) {
  if (low == high) return std::to_string(low);
  return cat("at least ", low, high < 0 ? "" : cat(" and at most ", high));
}

void check_attrs(const OpRow& row, const Attrs& attrs) {
  for (const auto& [name, value] : attrs) {
    auto known = [&name](const AttrSpec& spec) { return spec.name == name; };
    GW_REQUIRE(std::any_of(row.attrs.begin(), row.attrs.end(), known), row.name,
               ": unknown attribute: ", name);
  }
  for (const AttrSpec& spec : row.attrs) {
    const AttrValue* value = attrs.find(spec.name);
    GW_REQUIRE(value != nullptr, row.name, ": attribute ", spec.name, " is missing: expected ",
               to_string(spec.kind));
    GW_REQUIRE(kind_of(*value) == spec.kind, row.name, ": attribute ", spec.name,
               " is of the wrong kind: expected ", to_string(spec.kind), ", got ",
               to_string(kind_of(*value)));
  }
}

}  // namespace

const OpRow& row(Op op) {
  auto at = static_cast<size_t>(op);
  GW_ASSERT(at < static_cast<size_t>(kOpCount), "no op has the number ", at);
  return table()[at];
}

std::optional<Op> parse_op(std::string_view name) {
  for (const OpRow& row : table()) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

void fill_defaults(Op op, Attrs& attrs) {
  for (const AttrSpec& spec : row(op).attrs) {
    if (spec.default_value && attrs.find(spec.name) == nullptr)
      attrs.set(spec.name, *spec.default_value);
  }
}

std::vector<Type> infer_types(Op op, std::span<const Type> inputs, Attrs& attrs,
                              const Function* body) {
  const OpRow& r = row(op);
  int count = static_cast<int>(inputs.size());
  GW_REQUIRE(count >= r.inputs_min && (r.inputs_max < 0 || count <= r.inputs_max), r.name,
             ": wrong number of operands: expected ", expected_count(r.inputs_min, r.inputs_max),
             ", got ", count);
  fill_defaults(op, attrs);
  check_attrs(r, attrs);
  for (int i = 0; i < count; ++i) {
    const Type& type = inputs[static_cast<size_t>(i)];
    GW_REQUIRE(is_valid(type), r.name, ": operand ", i, " has no valid type: got ",
               to_string(type));
  }
  std::vector<Type> types = r.type_rule({op, inputs, attrs, body});
  for (const Type& type : types) {
    GW_REQUIRE(is_valid(type), r.name, ": the result is too large: got ", to_string(type),
               "; expected at most ", kRankMax, " dimensions and ", kElementsMax, " elements");
  }
  return types;
}

bool may_pad(const OpCall& call, const Factor& factor) {
  const OpRow& facts = row(call.op);
  if (!facts.keeps_zero || factor.kind == FactorKind::kWhole) return false;
  if (!factor.distributed_op.empty()) return false;
  if (facts.keeps_zero_when != nullptr && !facts.keeps_zero_when(call)) return false;
  bool in_an_input = false;
  const auto covers = [&](const Type& type, int dim) {
    return dim < 0 || type.dims[static_cast<size_t>(dim)] == factor.size;
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    in_an_input |= factor.input_dims[i] >= 0;
    if (!covers(call.inputs[i], factor.input_dims[i])) return false;
  }
  const std::vector<Type> results = facts.type_rule(call);
  for (size_t r = 0; r < results.size(); ++r) {
    if (!covers(results[r], factor.result_dims[r])) return false;
  }
  return in_an_input;
}

Attrs local_attrs(const OpCall& call, const Factors& factors, std::span<const int64_t> parts) {
  Attrs local = call.attrs;
  for (const AttrSpec& spec : row(call.op).attrs) {
    if (spec.role != AttrRole::kResultSizes && spec.role != AttrRole::kHeads) continue;
    AttrValue value = *call.attrs.find(spec.name);
    for (size_t f = 0; f < factors.size(); ++f) {
      if (spec.role == AttrRole::kHeads) {
        if (factors[f].name == 'h') std::get<int64_t>(value) /= parts[f];
      } else if (int dim = factors[f].result_dims[0]; dim >= 0) {
        int64_t& size = std::get<std::vector<int64_t>>(value)[static_cast<size_t>(dim)];
        size = ceil_div(size, parts[f]);
      }
    }
    local.set(spec.name, std::move(value));
  }
  return local;
}

void say_part(const OpCall& call, const std::string& placements, Attrs& local) {
  for (const AttrSpec& spec : row(call.op).attrs) {
    if (spec.role == AttrRole::kWholeSizes)
      local.set(spec.name, row(call.op).type_rule(call)[0].dims);
    if (spec.role == AttrRole::kPlacements) local.set(spec.name, placements);
  }
}

}  // namespace gangway
