#include "tests/numerics/reference_adamw.h"

#include <cmath>
#include <cstddef>

#include "runtime/base/error.h"

namespace gangway::reference {

double adamw_step(const AdamWConfig& config, double rate, const Tensors& gradients,
                  Tensors& parameters, AdamWState& state) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients) {
    for (double g : gradient) squares += g * g;
  }
  double norm = std::sqrt(squares);
  double scale = config.clip_norm > 0 && norm > config.clip_norm ? config.clip_norm / norm : 1;
  ++state.step;
  auto t = static_cast<double>(state.step);
  double correction1 = 1 - std::pow(config.beta1, t), correction2 = 1 - std::pow(config.beta2, t);

  for (auto& [name, p] : parameters) {
    auto found = gradients.find(name);
    GW_REQUIRE(found != gradients.end() && found->second.size() == p.size(),
               "reference adamw: no gradient of ", p.size(), " numbers for ", name);
    Vec& m = state.m[name];
    Vec& v = state.v[name];
    m.resize(p.size());
    v.resize(p.size());
    double decay = config.decayed && !config.decayed(name) ? 0 : config.decay;
    for (size_t i = 0; i < p.size(); ++i) {
      double g = found->second[i] * scale;
      m[i] = config.beta1 * m[i] + (1 - config.beta1) * g;
      v[i] = config.beta2 * v[i] + (1 - config.beta2) * g * g;
      double update = (m[i] / correction1) / (std::sqrt(v[i] / correction2) + config.epsilon);
      p[i] -= rate * (update + decay * p[i]);
    }
  }
  return norm;
}

}  // namespace gangway::reference
