#include "ir/op_table/factors.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"

namespace gangway::internal {
namespace {

std::vector<Type> result_types(const OpCall& call) { return row(call.op).type_rule(call); }

// One side of a spec: "...d, d" -> {"...d", "d"} without spaces.
std::vector<std::string> split(std::string_view side) {
  std::vector<std::string> terms(1);
  for (char c : side) {
    if (c == ',') {
      terms.emplace_back();
    } else if (c != ' ') {
      terms.back() += c;
    }
  }
  return terms;
}

// Replaces a leading "..." by `leading` names that no spec uses.
std::string expand(const std::string& term, int leading) {
  if (!term.starts_with("...")) return term;
  std::string names;
  for (int i = 0; i < leading; ++i) names += static_cast<char>('1' + i);
  return names + term.substr(3);
}

FactorKind kind_in(std::string_view clauses, char name) {
  for (auto [word, kind] :
       {std::pair("reduce", FactorKind::kReduce), std::pair("whole", FactorKind::kWhole)}) {
    size_t at = clauses.find(word);
    if (at == std::string_view::npos) continue;
    std::string_view letters = clauses.substr(at + std::string_view(word).size());
    if (letters.substr(0, letters.find(';')).find(name) != std::string_view::npos) return kind;
  }
  return FactorKind::kPass;
}

Factor& factor_of(Factors& factors, char name, int64_t size, size_t inputs, size_t results) {
  for (Factor& factor : factors) {
    if (factor.name == name) return factor;
  }
  return factors.emplace_back(Factor{name, FactorKind::kPass, size, std::vector<int>(inputs, -1),
                                     std::vector<int>(results, -1)});
}

}  // namespace

FactorList::FactorList(const OpCall& call)
    : inputs_(call.inputs.size()), results_(result_types(call).size()) {}

Factor& FactorList::add(FactorKind kind, int64_t size) {
  char name = static_cast<char>('i' + factors_.size() % 18);
  return factors_.emplace_back(
      Factor{name, kind, size, std::vector<int>(inputs_, -1), std::vector<int>(results_, -1)});
}

Factor& FactorList::add(FactorKind kind, int64_t size, int dim, int result_dim) {
  Factor& factor = add(kind, size);
  if (!factor.input_dims.empty()) factor.input_dims[0] = dim;
  std::fill(factor.result_dims.begin(), factor.result_dims.end(), result_dim);
  return factor;
}

Factors einsum_factors(const OpCall& call, std::string_view spec) {
  size_t arrow = spec.find("->"), end = std::min(spec.find(';'), spec.size());
  std::vector<std::string> inputs = split(spec.substr(0, arrow));
  std::vector<std::string> results = split(spec.substr(arrow + 2, end - arrow - 2));
  std::vector<Type> types = result_types(call);
  GW_ASSERT(inputs.size() == call.inputs.size() && results.size() == types.size(), spec);
  int leading = call.inputs[0].rank() - static_cast<int>(inputs[0].size()) + 3;
  Factors factors;
  auto read = [&](const std::string& term, const Type& type, bool is_result, size_t position) {
    std::string names = expand(term, leading);
    GW_ASSERT(static_cast<int>(names.size()) == type.rank(), spec, " for ", to_string(type));
    for (size_t d = 0; d < names.size(); ++d) {
      Factor& factor = factor_of(factors, names[d], type.dims[d], call.inputs.size(), types.size());
      (is_result ? factor.result_dims : factor.input_dims)[position] = static_cast<int>(d);
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) read(inputs[i], call.inputs[i], false, i);
  for (size_t r = 0; r < results.size(); ++r) read(results[r], types[r], true, r);
  for (Factor& factor : factors) {
    char name = factor.name;
    bool is_leading = name >= '1' && name <= '9';
    factor.kind = kind_in(spec.substr(end), is_leading ? '.' : name);
  }
  return factors;
}

Factors elementwise_factors(const OpCall& call) {
  FactorList list(call);
  std::vector<Type> types = result_types(call);
  for (int d = 0; d < types[0].rank(); ++d) {
    Factor& factor = list.add(FactorKind::kPass, types[0].dims[static_cast<size_t>(d)], d, d);
    std::fill(factor.input_dims.begin(), factor.input_dims.end(), d);
  }
  return list.take();
}

Factors whole_factors(const OpCall& call) {
  FactorList list(call);
  std::vector<Type> types = result_types(call);
  auto add = [&](const Type& type, bool is_result, size_t position) {
    for (int d = 0; d < type.rank(); ++d) {
      Factor& factor = list.add(FactorKind::kWhole, type.dims[static_cast<size_t>(d)]);
      (is_result ? factor.result_dims : factor.input_dims)[position] = d;
    }
  };
  for (size_t i = 0; i < call.inputs.size(); ++i) add(call.inputs[i], false, i);
  for (size_t r = 0; r < types.size(); ++r) add(types[r], true, r);
  return list.take();
}

Factors last_whole_factors(const OpCall& call) {
  Factors factors = elementwise_factors(call);
  if (!factors.empty()) factors.back().kind = FactorKind::kWhole;
  return factors;
}

namespace {

// Consumes the shortest runs of dimensions of `a` from i and `b` from j with equal products.
void advance_group(const Dims& a, size_t& i, const Dims& b, size_t& j) {
  int64_t left = a[i++], right = b[j++];
  while (left != right) {
    if (left < right) {
      left *= a[i++];
    } else {
      right *= b[j++];
    }
  }
}

}  // namespace

// The row-major order of a group of dimensions is cut by its outermost dimension, on both sides.
Factors reshape_factors(const OpCall& call) {
  const Dims &from = call.inputs[0].dims, &to = call.attrs.ints("dims");
  if (call.inputs[0].elements() == 0) return whole_factors(call);
  FactorList list(call);
  auto whole = [&](size_t dim, bool is_result) {
    int d = static_cast<int>(dim);
    list.add(FactorKind::kWhole, (is_result ? to : from)[dim], is_result ? -1 : d,
             is_result ? d : -1);
  };
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    if (i < from.size() && from[i] == 1) {
      whole(i++, false);
    } else if (j < to.size() && to[j] == 1) {
      whole(j++, true);
    } else {
      size_t i0 = i, j0 = j;
      advance_group(from, i, to, j);
      list.add(FactorKind::kPass, std::gcd(from[i0], to[j0]), static_cast<int>(i0),
               static_cast<int>(j0));
      for (size_t d = i0 + 1; d < i; ++d) whole(d, false);
      for (size_t d = j0 + 1; d < j; ++d) whole(d, true);
    }
  }
  return list.take();
}

}  // namespace gangway::internal
