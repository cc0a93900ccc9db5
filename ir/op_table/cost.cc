#include "ir/op_table/cost.h"

namespace gangway::internal {

double bytes_moved(const OpCall& call) {
  double bytes = 0;
  for (const Type& type : call.inputs) bytes += static_cast<double>(type.bytes());
  for (const Type& type : row(call.op).type_rule(call)) bytes += static_cast<double>(type.bytes());
  return bytes;
}

double result_elements(const OpCall& call) {
  return static_cast<double>(row(call.op).type_rule(call)[0].elements());
}

}  // namespace gangway::internal
