// Plain double-precision pieces of the reference model: matrix products, RMS norm, the feed-forward
// block.
//
// Everything is written out in loops over row-major vectors, so that it can be checked by eye and
// shares nothing with the kernels and gradients that it judges.
//
// Threads: pure functions; safe anywhere.
#pragma once

#include <span>
#include <vector>

namespace gangway::reference {

using Vec = std::vector<double>;
using View = std::span<const double>;
using Out = std::span<double>;

// a[m, k] . b[k, n]
Vec matmul(View a, View b, int m, int k, int n);
// a[m, n] . transpose(b[k, n]), giving [m, k]
Vec matmul_transposed(View a, View b, int m, int n, int k);
// out[k, n] += transpose(a[m, k]) . b[m, n]
void add_outer(Out out, View a, View b, int m, int k, int n);
// out += a
void add_to(Out out, View a);

// Writes the softmax of the logits to `probabilities`, and returns log(sum(exp(logits))).
double softmax(View logits, Out probabilities);
// Writes the gradient of the logits, given the gradient of the probabilities.
void softmax_backward(View probabilities, View d_probabilities, Out d_logits);

// y[r, i] = x[r, i] * weight[i] / sqrt(mean_i(x[r, i]^2) + epsilon)
Vec rms_norm(View x, View weight, double epsilon);
// Adds to d_weight and returns the gradient of x.
Vec rms_norm_backward(View x, View weight, double epsilon, View dy, Out d_weight);

enum class Activation { kGeluTanh, kSilu };
double activate(Activation activation, double x);
double activate_derivative(Activation activation, double x);

// down . (activation(x . up)), or down . (activation(x . gate) * (x . up)) where there is a gate.
struct FeedForward {
  int dim = 0;
  int hidden = 0;
  Activation activation = Activation::kGeluTanh;
  View up;    // [dim, hidden]
  View gate;  // [dim, hidden], or empty
  View down;  // [hidden, dim]
};

// Values of the forward pass that the backward pass needs.
struct FeedForwardTrace {
  Vec x;       // [rows, dim]
  Vec up;      // [rows, hidden], before the activation
  Vec gate;    // [rows, hidden], before the activation; empty without a gate
  Vec hidden;  // [rows, hidden], the input of `down`
};

struct FeedForwardGradients {
  Out up, gate, down;
};

Vec feed_forward(const FeedForward& block, Vec x, FeedForwardTrace& trace);
// Adds to the gradients of the weights, and returns the gradient of x.
Vec feed_forward_backward(const FeedForward& block, const FeedForwardTrace& trace, View dy,
                          FeedForwardGradients gradients);

}  // namespace gangway::reference
