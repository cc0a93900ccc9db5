#include "tests/interpret/literal.h"

#include "runtime/base/error.h"

namespace gangway {

Literal filled(Type type, double value) {
  std::vector<double> values(static_cast<size_t>(type.elements()), rounded(type.dtype, value));
  return {std::move(type), std::move(values)};
}

void round_values(Literal& literal) {
  for (double& value : literal.values) value = rounded(literal.type.dtype, value);
}

Literal from_bytes(Type type, std::span<const std::byte> bytes) {
  GW_REQUIRE(static_cast<int64_t>(bytes.size()) == type.bytes(),
             "literal: wrong number of bytes: ", to_string(type), " takes ", type.bytes(), ", got ",
             bytes.size());
  Literal literal{std::move(type), {}};
  size_t size = size_of(literal.type.dtype);
  for (size_t at = 0; at < bytes.size(); at += size)
    literal.values.push_back(load_number(literal.type.dtype, bytes.data() + at));
  return literal;
}

std::vector<std::byte> to_bytes(const Literal& literal) {
  size_t size = size_of(literal.type.dtype);
  std::vector<std::byte> bytes(literal.values.size() * size);
  for (size_t i = 0; i < literal.values.size(); ++i)
    store_number(literal.type.dtype, literal.values[i], bytes.data() + i * size);
  return bytes;
}

namespace {

// A tensor seen as [outer, size of dim, inner].
struct Split {
  int64_t outer = 1, inner = 1;
  Split(const Type& type, int dim) {
    for (int d = 0; d < type.rank(); ++d) {
      if (d != dim) (d < dim ? outer : inner) *= type.dims[static_cast<size_t>(d)];
    }
  }
};

}  // namespace

Literal part_of(const Literal& whole, int dim, int64_t parts, int64_t index) {
  Literal part{whole.type, {}};
  int64_t& size = part.type.dims[static_cast<size_t>(dim)];
  GW_REQUIRE(size % parts == 0, "part_of: dim ", dim, " cannot be cut in ", parts, ": got ",
             to_string(whole.type));
  Split split(whole.type, dim);
  int64_t run = size / parts * split.inner;
  size /= parts;
  for (int64_t o = 0; o < split.outer; ++o) {
    auto from = whole.values.begin() + (o * parts + index) * run;
    part.values.insert(part.values.end(), from, from + run);
  }
  return part;
}

Literal join(const std::vector<Literal>& parts, int dim) {
  Literal whole{parts.at(0).type, {}};
  auto d = static_cast<size_t>(dim);
  whole.type.dims[d] = 0;
  for (const Literal& part : parts) whole.type.dims[d] += part.type.dims[d];
  Split split(whole.type, dim);
  for (int64_t o = 0; o < split.outer; ++o) {
    for (const Literal& part : parts) {
      int64_t run = part.type.dims[d] * split.inner;
      auto from = part.values.begin() + o * run;
      whole.values.insert(whole.values.end(), from, from + run);
    }
  }
  return whole;
}

}  // namespace gangway
