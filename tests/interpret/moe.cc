// References of the mixture-of-experts ops: one (token, choice) pair, one slot at a time.
#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

// Calls visit(expert) for each pair of a group that names an expert, in token order, then choice
// order.
void route(const EvaluateCall& e) {
  size_t groups = as_size(e.dims()[0]), pairs = as_size(e.dims()[1] * e.dims()[2]);
  size_t experts = as_size(e.attrs().integer("experts"));
  size_t capacity = as_size(e.attrs().integer("capacity")), slots = as_size(e.out_dims()[1]);
  e.y(0).assign(e.y(0).size(), -1);
  e.y(1).assign(e.y(1).size(), -1);
  for (size_t g = 0; g < groups; ++g) {
    size_t next = 0;
    for (size_t expert = 0; expert < experts; ++expert) {
      size_t first = capacity > 0 ? expert * capacity : next, taken = 0;
      for (size_t pair = 0; pair < pairs; ++pair) {
        if (e.x()[g * pairs + pair] != static_cast<double>(expert)) continue;
        if (capacity > 0 && taken == capacity) continue;
        size_t slot = first + taken++;
        e.y(0)[g * slots + slot] = static_cast<double>(pair);
        e.y(1)[g * pairs + pair] = static_cast<double>(slot);
      }
      next += taken;
      e.y(2)[g * experts + expert] = static_cast<double>(capacity > 0 ? capacity : taken);
    }
  }
}

// Calls visit(position of the pair in token_slot, row of its slot, row of its token) for each pair
// that has a slot. Rows are counted over all groups.
template <class Visit>
void each_pair(const Literal& token_slot, int64_t slots, Visit visit) {
  const Dims& dims = token_slot.type.dims;
  for (size_t pair = 0; pair < token_slot.values.size(); ++pair) {
    double slot = token_slot.values[pair];
    if (slot < 0) continue;
    size_t group = pair / as_size(dims[1] * dims[2]);
    visit(pair, group * as_size(slots) + static_cast<size_t>(slot), pair / as_size(dims[2]));
  }
}

void dispatch(const EvaluateCall& e) {
  size_t dim = as_size(e.dims()[2]);
  each_pair(e.in[2], e.out_dims()[1], [&](size_t, size_t slot, size_t token) {
    for (size_t c = 0; c < dim; ++c) e.y()[slot * dim + c] = e.x()[token * dim + c];
  });
}

void combine(const EvaluateCall& e) {
  size_t dim = as_size(e.dims()[2]);
  each_pair(e.in[3], e.dims()[1], [&](size_t pair, size_t slot, size_t token) {
    for (size_t c = 0; c < dim; ++c)
      e.y()[token * dim + c] += e.x(1)[pair] * e.x(0)[slot * dim + c];
  });
}

void combine_grad_y(const EvaluateCall& e) {
  size_t dim = as_size(e.dims()[2]);
  each_pair(e.in[3], e.out_dims()[1], [&](size_t pair, size_t slot, size_t token) {
    for (size_t c = 0; c < dim; ++c) e.y()[slot * dim + c] = e.x(1)[pair] * e.x(0)[token * dim + c];
  });
}

void combine_grad_w(const EvaluateCall& e) {
  size_t dim = as_size(e.dims()[2]);
  each_pair(e.in[3], e.dims(1)[1], [&](size_t pair, size_t slot, size_t token) {
    for (size_t c = 0; c < dim; ++c)
      e.y()[pair] += e.x(0)[token * dim + c] * e.x(1)[slot * dim + c];
  });
}

// Calls visit(row over all groups, its expert) for each row that belongs to an expert.
template <class Visit>
void each_row(const EvaluateCall& e, size_t experts, Visit visit) {
  const size_t groups = as_size(e.dims()[0]);
  const int64_t slots = e.dims()[1], capacity = e.attrs().integer("capacity");
  for (size_t g = 0; g < groups; ++g) {
    int64_t slot = 0;
    for (size_t expert = 0; expert < experts; ++expert) {
      const auto size =
          capacity > 0 ? capacity : static_cast<int64_t>(e.in[2].values[g * experts + expert]);
      for (int64_t i = 0; i < size && slot < slots; ++i, ++slot)
        visit(g * as_size(slots) + as_size(slot), expert);
    }
  }
}

void grouped_dot(const EvaluateCall& e) {
  size_t in = as_size(e.dims()[2]), out = as_size(e.out_dims()[2]);
  bool transposed = e.attrs().flag("transpose_w");
  each_row(e, as_size(e.dims(1)[0]), [&](size_t row, size_t expert) {
    for (size_t h = 0; h < out; ++h) {
      for (size_t d = 0; d < in; ++d) {
        size_t at = transposed ? h * in + d : d * out + h;
        e.y()[row * out + h] += e.x(0)[row * in + d] * e.x(1)[expert * in * out + at];
      }
    }
  });
}

void grouped_dot_grad_w(const EvaluateCall& e) {
  size_t in = as_size(e.dims(0)[2]), out = as_size(e.dims(1)[2]);
  each_row(e, as_size(e.out_dims()[0]), [&](size_t row, size_t expert) {
    for (size_t d = 0; d < in; ++d) {
      for (size_t h = 0; h < out; ++h)
        e.y()[(expert * in + d) * out + h] += e.x(0)[row * in + d] * e.x(1)[row * out + h];
    }
  });
}

}  // namespace

std::vector<ReferenceRow> moe_references() {
  return {{Op::moe_route, route},
          {Op::moe_dispatch, dispatch},
          {Op::moe_combine, combine},
          {Op::moe_combine_grad_y, combine_grad_y},
          {Op::moe_combine_grad_w, combine_grad_w},
          {Op::grouped_dot, grouped_dot},
          {Op::grouped_dot_grad_w, grouped_dot_grad_w}};
}

}  // namespace gangway::internal
