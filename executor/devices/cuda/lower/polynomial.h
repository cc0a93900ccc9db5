// An element-wise chain as a polynomial of its inputs and of tanh and max of such polynomials. Two
// chains whose polynomials are alike compute the same, in whatever order they add and multiply.
//
// Why: a library knows a gelu and its gradient as formulas, a program as the instructions that
// differentiation and simplification left.
// Threads: a value.
//
// Example:
//   Atoms atoms;
//   const Polynomial x = atoms.variable();
//   alike(x * x + x, x * (1 + x));  // true
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "executor/kernels/fused.h"

namespace gangway::cuda {

class Polynomial {
 public:
  // Variables and functions, by number, each as often as it is multiplied; in ascending order.
  using Monomial = std::vector<uint32_t>;

  Polynomial() = default;
  Polynomial(double constant) {  // NOLINT(google-explicit-constructor): numbers are polynomials.
    if (constant != 0) terms_[{}] = constant;
  }

  const std::map<Monomial, double>& terms() const { return terms_; }

  friend Polynomial operator+(const Polynomial& a, const Polynomial& b);
  friend Polynomial operator-(const Polynomial& a, const Polynomial& b);
  friend Polynomial operator*(const Polynomial& a, const Polynomial& b);

 private:
  friend class Atoms;
  std::map<Monomial, double> terms_;  // No coefficient is 0.
};
// Coefficients may differ in the last digits of a float.
bool alike(const Polynomial& a, const Polynomial& b);

// Numbers variables and functions. Calls of a function whose arguments are alike have one number.
class Atoms {
 public:
  Polynomial variable() { return add({}); }
  Polynomial tanh(const Polynomial& of) { return function({FusedOp::kTanh, {of}}); }
  Polynomial max(const Polynomial& a, const Polynomial& b) {
    return function({FusedOp::kMax, {a, b}});
  }

 private:
  struct Atom {
    FusedOp op = FusedOp::kConstant;  // kConstant stands for a variable.
    std::vector<Polynomial> of;
  };
  Polynomial function(Atom atom);
  Polynomial add(Atom atom);

  std::vector<Atom> atoms_;
};

// The first output of a program whose inputs are these; none where it has other instructions than
// +, -, *, tanh and max, or too long a polynomial.
std::optional<Polynomial> polynomial_of(const FusedProgram& program, std::vector<Polynomial> inputs,
                                        Atoms& atoms);

}  // namespace gangway::cuda
