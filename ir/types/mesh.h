// A mesh: named axes laid over the devices of a slice, e.g. {data: 2, expert: 4}.
//
// Invariants: axis names are unique and not empty; sizes are at least 1. Device d of the slice has
// the coordinates of d in row-major order, last axis fastest. Like jax.sharding.Mesh.
// Threads: a value; safe anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gangway {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

struct Mesh {
  std::vector<MeshAxis> axes;

  int64_t devices() const;
  int axis(std::string_view name) const;  // Its position, or -1.
  // The coordinate of device `device` along axis `axis`.
  int64_t coordinate(int64_t device, int axis) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

std::string to_string(const Mesh& mesh);  // "{data: 2, expert: 4}"

}  // namespace gangway
