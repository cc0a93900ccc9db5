#include "tests/cuda/op_checks.h"

#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/build/gradient.h"
#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/case_run.h"

namespace gangway {
namespace {

using op_table::OpCase;

bool is_of_a_mesh(const OpCase& test) {
  return row(test.op).family == OpFamily::kCollective || test.attrs.find("whole") != nullptr;
}

// The ops that the node of `of` stands for. Null if it is a single op or a loop.
std::shared_ptr<Function> parts_of(const Function& of, const std::vector<Literal>& inputs) {
  const Node& node = of.nodes[0];
  std::shared_ptr<Function> parts;
  if (shares_body(node.op)) return nullptr;
  if (node.body != nullptr) {
    parts = std::make_shared<Function>(*node.body);
  } else if (row(node.op).decompose != nullptr) {
    Builder b("parts");
    std::vector<Value> values;
    for (const Literal& input : inputs) values.push_back(b.parameter("p", input.type));
    for (Value result : row(node.op).decompose({b, node, values, Loc::current()}))
      b.result("r", result);
    parts = std::make_shared<Function>(b.build());
  }
  if (parts != nullptr) parts->local = true;
  return parts;
}

}  // namespace

void expect_the_reference(OpDevices& devices, const OpCase& test, DType dtype, Rng& rng) {
  std::vector<std::vector<Literal>> arguments = {test.make(rng)};
  if (is_of_a_mesh(test)) arguments.push_back(test.make(rng));
  const std::shared_ptr<Function> function = op_table::function_of(test, arguments[0]);
  function->mesh = {{{"data", static_cast<int64_t>(arguments.size())}}};
  SCOPED_TRACE(print(*function));
  const std::vector<std::vector<Literal>> want = interpret_local(*function, arguments);
  const std::vector<std::vector<Literal>> got = devices.run(function, arguments);
  for (size_t d = 0; d < want.size(); ++d)
    EXPECT_EQ(op_table::difference(got[d], want[d], dtype), "") << "device " << d;
  EXPECT_EQ(devices.report(), "");
}

void expect_its_parts(OpDevices& devices, const OpCase& test, DType dtype, Rng& rng) {
  const std::vector<Literal> inputs = test.make(rng);
  const std::shared_ptr<Function> fused = op_table::function_of(test, inputs);
  const std::shared_ptr<Function> parts = parts_of(*fused, inputs);
  if (parts == nullptr) return;
  SCOPED_TRACE(print(*fused));
  const std::vector<Literal> want = devices.run(parts, {inputs})[0];
  EXPECT_EQ(op_table::difference(devices.run(fused, {inputs})[0], want, dtype), "");
  EXPECT_EQ(devices.report(), "");
}

}  // namespace gangway
