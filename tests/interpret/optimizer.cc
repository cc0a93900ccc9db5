// References of the optimizer's ops.
#include <cmath>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

void sum_squares(const EvaluateCall& e) {
  for (double x : e.x()) e.y()[0] += x * x;
}

void adamw(const EvaluateCall& e) {
  double beta1 = e.attrs().real("beta1"), beta2 = e.attrs().real("beta2");
  double lr = e.x(4)[0], correction1 = e.x(5)[0], correction2 = e.x(6)[0], scale = e.x(7)[0];
  for (size_t i = 0; i < e.y().size(); ++i) {
    double g = e.x(3)[i] * scale, p = e.x(0)[i];
    double m = beta1 * e.x(1)[i] + (1 - beta1) * g, v = beta2 * e.x(2)[i] + (1 - beta2) * g * g;
    double step = m / correction1 / (std::sqrt(v / correction2) + e.attrs().real("eps"));
    e.y(0)[i] = p - lr * (step + e.attrs().real("weight_decay") * p);
    e.y(1)[i] = m;
    e.y(2)[i] = v;
  }
}

}  // namespace

std::vector<ReferenceRow> optimizer_references() {
  return {{Op::sum_squares, sum_squares}, {Op::adamw, adamw}};
}

}  // namespace gangway::internal
