// Boxes: which device sends which part of a tensor to which device when the tensor moves from one
// mesh to another. A pure function of the type and both shardings: either end can list what its own
// devices send or receive without asking the other, and both list the same box. Slices exchange
// whole shards so far; the product takes the rows that a device holds from here.
//
// Every device of the second mesh gets each element of its part once. If several devices of the
// first mesh hold the part, its receivers are dealt out among them in turn, so that all of them
// send about as much.
//
// Invariants
//  - Boxes count rows of the whole tensor, are never empty and hold no padding: receivers fill
//    theirs with zeros.
//  - Terms of a sum don't cross: a partial value is converted on its own mesh first
//    (ir/transforms/conversions). A value may arrive partial: a sum goes to the first device
//    along the axis, the others hold zeros; a maximum or minimum goes to all devices.
//
// Shapes: a part's first row is the first of its box; parts are nested and ceil-sized as
// ir/types/sharding.h says.
// Threads: pure functions.
// Errors: kInvalid when a sharding does not fit the type or its mesh, or the first one is partial.
// Cost: for one device, proportional to the copies that it takes part in, not to the devices of
// either mesh.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "ir/types/box.h"
#include "ir/types/mesh.h"
#include "ir/types/sharding.h"
#include "ir/types/type.h"

namespace gangway {

struct MeshSharding {
  Mesh mesh;
  Sharding sharding;
};

struct BoxCopy {
  int64_t from = 0;  // A device of the first mesh,
  int64_t to = 0;    // and one of the second.
  Box box;
  friend auto operator<=>(const BoxCopy&, const BoxCopy&) = default;
};

// The rows of the whole tensor that a device holds; some size is 0 if the device holds none.
Box box_of(const Type& type, const MeshSharding& at, int64_t device);

// boxes_sent() is in ascending order of receivers, boxes_received() of senders.
std::vector<BoxCopy> boxes_sent(const Type& type, const MeshSharding& from, const MeshSharding& to,
                                int64_t device);
std::vector<BoxCopy> boxes_received(const Type& type, const MeshSharding& from,
                                    const MeshSharding& to, int64_t device);

}  // namespace gangway
