#include "tests/cuda/card_suites.h"
#include "tests/cuda/op_checks.h"
#include "tests/op_table/case_run.h"

namespace gangway {
namespace {

using op_table::case_seed;
using op_table::OpCase;

using Check = void (&)(OpDevices&, const OpCase&, DType, Rng&);

void check_all(const CardMaker& maker, DType dtype, Check check) {
  SCOPED_TRACE(cat("seed ", case_seed()));
  Rng rng(case_seed());
  OpDevices devices(maker.make(), 2);
  for (const OpCase& test : op_table::all_cases(dtype)) {
    if (test.op != Op::custom_call) check(devices, test, dtype, rng);
  }
}

TEST_P(CardOps, EqualTheReference) { check_all(maker(), dtype(), expect_the_reference); }

TEST_P(CardOps, FusedKernelsEqualTheOpsThatTheyStandFor) {
  check_all(maker(), dtype(), expect_its_parts);
}

}  // namespace
}  // namespace gangway
