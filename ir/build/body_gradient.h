// The derivatives of the bodies of scans and calls.
//
// A body is differentiated when it is traced: with_residuals() adds the values that its adjoint
// reads to its results, and a scan stacks them. Residuals are values that would cost work to
// compute again: the carries as an iteration found them, products, element-wise results. Constants,
// shapes and values that depend on invariants alone are computed again, and so is a
// rematerialisation region in the body: only its inputs are kept. Residuals that no gradient reads
// are dead results, and simplify() removes them.
//
// The adjoint of a scan is a scan the other way round: it carries the cotangents of the carries and
// the sums of those of the invariants, and stacks those of the slices.
//
// Threads: one thread, the builder's.
#pragma once

#include <memory>
#include <vector>

#include "ir/build/body_cache.h"
#include "ir/build/builder.h"
#include "ir/build/gradient.h"

namespace gangway::internal {

// The body, or one with more results behind its own. `outer` traces the node that will name it.
std::shared_ptr<const Function> with_residuals(std::shared_ptr<const Function> body,
                                               const BodyLayout& layout, const Builder& outer);

// The gradient rule of scan and call. Throws kInvalid if the body keeps no residuals because
// neither scan() nor call() traced it.
std::vector<Value> body_gradient(const GradientCall& call);

}  // namespace gangway::internal
