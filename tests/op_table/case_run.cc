#include "tests/op_table/case_run.h"

#include <cmath>
#include <cstdlib>

#include "ir/graph/bodies.h"
#include "ir/transforms/memory/own_results.h"
#include "runtime/base/cat.h"

namespace gangway::op_table {

namespace {

// The case's body as the passes leave it for devices.
std::shared_ptr<const Function> local_body(const OpCase& test) {
  if (!shares_body(test.op)) return test.body;
  Function body = *test.body;
  body.local = true;
  return std::make_shared<const Function>(own_results(std::move(body)));
}

}  // namespace

std::shared_ptr<Function> function_of(const OpCase& test, const std::vector<Literal>& inputs) {
  auto function = std::make_shared<Function>();
  function->name = "case";
  function->local = true;
  Node node{.op = test.op, .attrs = test.attrs};
  std::vector<Type> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    function->parameters.push_back({"p" + std::to_string(i), {}});
    types.push_back(inputs[i].type);
    node.inputs.push_back(static_cast<ValueId>(i));
  }
  const std::vector<Type> results = infer_types(test.op, types, node.attrs, test.body.get());
  node.body = local_body(test);
  node.first_result = static_cast<ValueId>(types.size());
  node.results = static_cast<uint32_t>(results.size());
  function->types = types;
  for (size_t r = 0; r < results.size(); ++r) {
    function->results.push_back(node.first_result + static_cast<ValueId>(r));
    function->result_names.push_back("r" + std::to_string(r));
    function->types.push_back(results[r]);
  }
  function->nodes = {node};
  function->infos.resize(1);
  return function;
}

namespace {

bool close(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance * (1 + std::abs(want));
}

double tolerance_of(DType dtype, DType of_case) {
  if (!is_float(dtype)) return 0;
  if (of_case == DType::kBF16) return 0.03;  // Some intermediates are rounded, some are not.
  return of_case == DType::kF64 && dtype == DType::kF64 ? 1e-11 : 2e-5;
}

}  // namespace

std::string difference(const std::vector<Literal>& got, const std::vector<Literal>& want,
                       DType of_case) {
  std::string text;
  for (size_t r = 0; r < want.size(); ++r) {
    const double tolerance = tolerance_of(want[r].type.dtype, of_case);
    for (size_t i = 0; i < want[r].values.size(); ++i) {
      if (close(got[r].values[i], want[r].values[i], tolerance)) continue;
      text += cat("result ", r, " element ", i, ": expected ", want[r].values[i], ", got ",
                  got[r].values[i], "\n");
      break;
    }
  }
  return text;
}

uint64_t case_seed() {
  const char* text = std::getenv("GW_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace gangway::op_table
