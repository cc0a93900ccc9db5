#include "ir/transforms/pipeline.h"

#include <utility>

#include "ir/transforms/compile_record.h"
#include "ir/transforms/passes.h"
#include "ir/transforms/propagation/placed_functions.h"

namespace gangway {
namespace {

AfterPass after(const Pass& pass, const Compilation& c) {
  AfterPass after{.pass = pass.name, .commit_begin = c.commit_begin, .sections = c.sections};
  if (c.function.types.empty()) {
    after.function = c.global;
  } else if (!c.function.local && !c.propagation.shardings.empty()) {
    after.function = with_shardings(c.function, c.propagation);
  } else {
    after.function = c.function;
  }
  return after;
}

}  // namespace

Compiled compile_function(const Function& global, const CallContext& context,
                          const PassWatch& watch, CompileRecord* record) {
  Compilation c{.global = global, .context = context, .record = record};
  for (const Pass& pass : passes()) {
    if (watch) watch(pass.name);
    run_pass(pass, c);
    if (record != nullptr && record->keeps_passes) record->after.push_back(after(pass, c));
  }
  return {.local = {.function = std::make_shared<const Function>(std::move(c.function)),
                    .commit_begin = c.commit_begin,
                    .in_place = context.in_place,
                    .finite_result = context.finite_result,
                    .sections = std::move(c.sections)},
          .parameter_shardings = std::move(c.parameter_shardings),
          .result_shardings = std::move(c.result_shardings)};
}

}  // namespace gangway
