// Boxes: who sends which part of a tensor to whom when it goes from one mesh to another. A pure
// function of the type and both shardings, so that hosts need not tell one another: each lists what
// its own devices send and receive, and both ends of a copy list the same box.
//
// Every device of the second mesh gets each element of its part once. Where several devices of the
// first mesh hold it, the receivers are dealt out among them in turn, so that they send alike.
//
// Invariants
//  - Boxes are in rows of the whole tensor, are never empty and hold no padding: receivers fill
//    theirs with zeros.
//  - Terms of a sum don't cross: what is partial is converted on its own mesh first
//    (ir/transforms/conversions). A value may arrive partial: of a sum the first device along the
//    axis gets it, the others hold zeros; a maximum or minimum all get.
//
// Shapes: a part's first row is the first of its box; parts are nested and ceil-sized as
// ir/types/sharding.h says.
// Threads: pure functions.
// Errors: kInvalid when a sharding does not fit the type or its mesh, or the first one is partial.
// Cost: of a device, the copies that it takes part in; not the devices of either mesh.
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

// The rows of the whole tensor that a device holds; some size is 0 where it holds none.
Box box_of(const Type& type, const MeshSharding& at, int64_t device);

// Ascending by receiver; by sender.
std::vector<BoxCopy> boxes_sent(const Type& type, const MeshSharding& from, const MeshSharding& to,
                                int64_t device);
std::vector<BoxCopy> boxes_received(const Type& type, const MeshSharding& from,
                                    const MeshSharding& to, int64_t device);

}  // namespace gangway
