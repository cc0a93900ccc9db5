// The derivatives of the bodies of scans and calls.
//
// A body is differentiated when it is traced: with_residuals() adds what its adjoint reads to its
// results, where a scan stacks them. A residual is what would cost work to compute again: the
// carries as an iteration found them, products, element-wise results. Constants, shapes and what
// depends on invariants alone are computed again, and so is a rematerialisation region in the body,
// of which only what it reads is kept. Residuals that no gradient reads are dead results, and
// simplify() removes them.
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

// The gradient rule of scan and call. Throws kInvalid where a body keeps no residuals: one that was
// not traced by scan() or call().
std::vector<Value> body_gradient(const GradientCall& call);

}  // namespace gangway::internal
