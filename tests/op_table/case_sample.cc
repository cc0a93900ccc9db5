#include "tests/op_table/case_sample.h"

#include <cstdlib>

#include "runtime/base/cat.h"
#include "tests/interpret/reference.h"

namespace gangway::op_table {

uint64_t sample_seed() {
  const char* text = std::getenv("GW_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 17;
}

Sample::Sample(const OpCase& op_case, Rng& rng)
    : op(op_case.op), body(op_case.body), attrs(op_case.attrs), in(op_case.make(rng)) {
  for (const Literal& literal : in) types.push_back(literal.type);
  results = infer_types(op, types, attrs, body.get());
}

bool Sample::can_evaluate() const {
  if (row(op).family == OpFamily::kRandom && !attrs.text("placements").empty()) return false;
  return body != nullptr || internal::reference_of(op) != nullptr;
}

std::string Sample::text() const {
  std::string line = std::string(to_string(op)) + "(";
  for (const Type& type : types) line += to_string(type) + " ";
  return cat(line, "), seed ", sample_seed());
}

std::vector<Sample> samples(DType dtype) {
  Rng rng(sample_seed());
  std::vector<Sample> all;
  for (const OpCase& op_case : all_cases(dtype)) all.emplace_back(op_case, rng);
  for (const OpCase& op_case : collective_cases(dtype)) all.emplace_back(op_case, rng);
  return all;
}

}  // namespace gangway::op_table
