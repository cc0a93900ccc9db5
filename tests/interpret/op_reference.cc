#include "tests/interpret/op_reference.h"

#include "ir/op_table/op.h"
#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

struct Family {
  OpFamily family;
  const char* heading;
};

constexpr Family kFamilies[] = {
    {OpFamily::kElementwise, "Element-wise"}, {OpFamily::kShape, "Shape"},
    {OpFamily::kReduce, "Reductions"},        {OpFamily::kDot, "Products"},
    {OpFamily::kIndex, "Indexing"},           {OpFamily::kRandom, "Random numbers"},
    {OpFamily::kControl, "Control"},          {OpFamily::kComposite, "Composites"},
    {OpFamily::kCollective, "Collectives"},
};

std::string operands(const OpRow& row) {
  std::string low = std::to_string(row.inputs_min);
  if (row.inputs_max < 0) return low + " or more";
  return row.inputs_min == row.inputs_max ? low : cat(low, " to ", row.inputs_max);
}

std::string results(const OpRow& row) {
  return row.results < 0 ? "several" : std::to_string(row.results);
}

std::string linear(Linear linear) {
  switch (linear) {
    case Linear::kNo: return "no";
    case Linear::kAll: return "in all operands jointly";
    case Linear::kEach: return "in each operand alone";
    case Linear::kFirst: return "in the first operand";
  }
  return "?";
}

std::string gradient(const OpRow& row) {
  return row.gradient != nullptr ? "yes" : cat("none: ", row.no_gradient);
}

void write(std::string& out, const OpRow& row) {
  out += cat("#### `", row.name, "`\n\n", row.doc, "\n\n");
  out += cat("Operands: ", operands(row), ". Results: ", results(row),
             ". Linear: ", linear(row.linear), ". Gradient: ", gradient(row), ".",
             row.keeps_zero ? " Keeps zero padding.\n" : "\n");
  if (!row.attrs.empty() || !row.distributed_ops.empty()) out += "\n";
  for (const AttrSpec& spec : row.attrs) {
    out += cat("- `", spec.name, "`: ", to_string(spec.kind));
    if (spec.default_value) out += cat(" = ", internal::print_attr(*spec.default_value));
    out += cat(", ", spec.doc, "\n");
  }
  for (const DistributedOp& distributed_op : row.distributed_ops)
    out += cat("- distributed op `", distributed_op.name, "`: ", distributed_op.doc, "\n");
  out += "\n";
}

}  // namespace

std::string op_reference() {
  std::string out = kOpReferenceHeading;
  out += cat("\nWritten from the op table (`ir/op_table/op.h`, ", kOpCount,
             " ops); `GW_UPDATE_DOCS=1 ctest -R OpReference` writes it anew.\n\n");
  for (const Family& family : kFamilies) {
    out += cat("### ", family.heading, "\n\n");
    for (int i = 0; i < kOpCount; ++i) {
      const OpRow& of = row(static_cast<Op>(i));
      if (of.family == family.family) write(out, of);
    }
  }
  out.pop_back();
  return out;
}

}  // namespace gangway
