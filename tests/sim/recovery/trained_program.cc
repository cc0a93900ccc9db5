#include "tests/sim/recovery/trained_program.h"
#include "tests/sim/sim_time.h"

namespace gangway::sim {

Program trained_program(bool in_double) {
  constexpr int64_t kRows = 8, kColumns = 4;
  const auto type = [&](Dims dims) { return in_double ? f64(dims) : f32(dims); };
  const Mesh mesh{{{"data", 4}}};
  ProgramBuilder b("training", mesh);
  const Value count = b.state("count", zeros(type({kRows, kColumns})), {{"data", shard(0)}});
  const Value trace = b.state("trace", zeros(type({kColumns})));
  const Value steps = b.state("steps", zeros(type({})));
  const Value x = b.input("x", type({}));
  const Value next = count * 0.75 + timed(x * 0.1 + count * 0.01, 200);
  b.update(count, next + 1.0);
  b.update(trace, trace * 0.5 + mean(next * next, {0}));
  b.update(steps, steps + 1.0);
  b.output("loss", mean(next) + mean(trace));
  b.output("row", next, {{"data", shard(0)}});
  return b.build();
}

HostTensor number(double value, bool in_double) {
  return in_double ? HostTensor::of<double>({}, {value})
                   : HostTensor::of<float>({}, {static_cast<float>(value)});
}

double as_double(const HostTensor& scalar) {
  return scalar.type.dtype == DType::kF64 ? scalar.as<double>()[0]
                                          : static_cast<double>(scalar.as<float>()[0]);
}

Schedule inputs_of_steps() { return Schedule::linear(0.5, 1.0 / 64); }

double input_of(int step) { return value_at(inputs_of_steps(), step); }

}  // namespace gangway::sim
