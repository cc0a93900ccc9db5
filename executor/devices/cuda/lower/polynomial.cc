#include "executor/devices/cuda/lower/polynomial.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gangway::cuda {
namespace {

constexpr size_t kTermsMax = 64;  // The gradient of a gelu has 7; powers of sums grow fast.
constexpr double kTolerance = 1e-6;

bool near(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

void accumulate(std::map<Polynomial::Monomial, double>& terms, const Polynomial::Monomial& monomial,
                double coefficient) {
  const double before = std::exchange(terms[monomial], 0);
  const double sum = before + coefficient;
  if (sum == 0 || near(before, -coefficient)) {
    terms.erase(monomial);
  } else {
    terms[monomial] = sum;
  }
}

}  // namespace

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  Polynomial sum = a;
  for (const auto& [monomial, coefficient] : b.terms_)
    accumulate(sum.terms_, monomial, coefficient);
  return sum;
}

Polynomial operator-(const Polynomial& a, const Polynomial& b) { return a + b * -1; }

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const auto& [left, by_left] : a.terms_) {
    for (const auto& [right, by_right] : b.terms_) {
      Polynomial::Monomial both;
      std::ranges::merge(left, right, std::back_inserter(both));
      accumulate(product.terms_, both, by_left * by_right);
    }
  }
  return product;
}

bool alike(const Polynomial& a, const Polynomial& b) {
  return std::ranges::equal(a.terms(), b.terms(), [](const auto& x, const auto& y) {
    return x.first == y.first && near(x.second, y.second);
  });
}

Polynomial Atoms::function(Atom atom) {
  for (uint32_t i = 0; i < atoms_.size(); ++i) {
    if (atoms_[i].op != atom.op || !std::ranges::is_permutation(atoms_[i].of, atom.of, alike))
      continue;
    Polynomial known;
    known.terms_[{i}] = 1;
    return known;
  }
  return add(std::move(atom));
}

Polynomial Atoms::add(Atom atom) {
  Polynomial made;
  made.terms_[{static_cast<uint32_t>(atoms_.size())}] = 1;
  atoms_.push_back(std::move(atom));
  return made;
}

std::optional<Polynomial> polynomial_of(const FusedProgram& program, std::vector<Polynomial> values,
                                        Atoms& atoms) {
  for (const FusedInstruction& code : program.code) {
    const auto operand = [&](size_t i) { return values[static_cast<size_t>(code.in[i])]; };
    if (code.op == FusedOp::kConstant) {
      values.emplace_back(code.immediate);
    } else if (code.op == FusedOp::kNeg) {
      values.push_back(operand(0) * -1);
    } else if (code.op == FusedOp::kTanh) {
      values.push_back(atoms.tanh(operand(0)));
    } else if (code.op == FusedOp::kMax) {
      values.push_back(atoms.max(operand(0), operand(1)));
    } else if (code.op == FusedOp::kAdd) {
      values.push_back(operand(0) + operand(1));
    } else if (code.op == FusedOp::kSub) {
      values.push_back(operand(0) - operand(1));
    } else if (code.op == FusedOp::kMul) {
      values.push_back(operand(0) * operand(1));
    } else {
      return {};
    }
    if (values.back().terms().size() > kTermsMax) return {};
  }
  return values[static_cast<size_t>(program.outputs[0].value)];
}

}  // namespace gangway::cuda
