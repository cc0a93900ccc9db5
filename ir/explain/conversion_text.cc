#include "ir/explain/conversion_text.h"

#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

std::string about(int64_t cost_ps) { return "about " + format_duration_ns(cost_ps / 1000); }

std::string steps_text(const Mesh& mesh, const ConversionRecord& conversion) {
  if (conversion.again) return "each device computes it again, which moves nothing";
  std::string text;
  int64_t sent = 0;
  for (const ConversionStep& step : conversion.steps) {
    std::string axes;
    for (const int axis : step.axes)
      axes += cat(axes.empty() ? "" : ",", mesh.axes[static_cast<size_t>(axis)].name);
    text += cat(text.empty() ? "" : ", then ", to_string(step.op), " over ", axes);
    sent += step.bytes;
  }
  if (text.empty()) return "as it is";
  if (sent > 0) text += cat(", each device sends ", format_bytes(static_cast<uint64_t>(sent)));
  return cat(text, ", ", about(conversion.cost_ps));
}

}  // namespace

std::string value_text(const Function& function, ValueId value) {
  if (value < function.parameters.size())
    return cat("parameter ", internal::quote(function.parameters[value].name));
  const NodeId id = producers(function)[value];
  return cat("%", value, " = ", to_string(function.nodes[id].op), " (", where(function, id), ")");
}

std::string conversion_text(const CompileRecord& record, const ConversionRecord& conversion,
                            const std::string& indent) {
  const Function& function = conversion.in == nullptr ? record.function : *conversion.in;
  const Mesh& mesh = record.function.mesh;
  std::string reader = "a result";
  if (conversion.reader != kNone && function.nodes[conversion.reader].results > 0)
    reader = value_text(function, function.nodes[conversion.reader].first_result);
  std::string text =
      cat(indent, conversion.first ? "on the way, as another reads it so, for " : "for ", reader,
          ": ", internal::print_sharding(mesh, conversion.from), " -> ",
          internal::print_sharding(mesh, conversion.to), ": ", steps_text(mesh, conversion), "\n");
  for (const ConversionRecord::Rejected& rejected : conversion.rejected) {
    text += cat(indent, "  not from ", internal::print_sharding(mesh, rejected.from),
                ", where it lies too: ", about(rejected.cost_ps), "\n");
  }
  return text;
}

}  // namespace gangway
