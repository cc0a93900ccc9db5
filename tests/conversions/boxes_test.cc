#include "ir/boxes/boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/base/error.h"
#include "tests/conversions/brute_force.h"
#include "tests/conversions/held_parts.h"
#include "tests/support/seed.h"

namespace gangway::tests {
namespace {

using ::testing::HasSubstr;

// Row-major index of an element of the whole tensor in the part that begins at `begin`.
size_t place(const Dims& dims, const Dims& begin, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d] - begin[d];
  return static_cast<size_t>(at);
}

void copy_box(const Box& box, const HeldPart& from, const Dims& from_begin, HeldPart& to,
              const Dims& to_begin) {
  Dims index = box.begin;
  for (bool more = true; more;) {
    int64_t& target = to.elements[place(to.dims, to_begin, index)];
    EXPECT_EQ(target, 0) << "got twice";
    target = from.elements[place(from.dims, from_begin, index)];
    more = false;
    for (size_t d = index.size(); d-- > 0 && !more;) {
      more = ++index[d] < box.begin[d] + box.size[d];
      if (!more) index[d] = box.begin[d];
    }
  }
}

// The receivers' parts, built from the copies that the senders list.
HeldParts moved(const Type& type, const MeshSharding& from, const MeshSharding& to) {
  const HeldParts sent = HeldAs(type, from.mesh, from.sharding).parts();
  HeldParts received = HeldAs(type, to.mesh, to.sharding).parts();
  for (HeldPart& part : received) std::ranges::fill(part.elements, 0);
  std::vector<BoxCopy> listed_by_receivers, listed_by_senders;
  for (int64_t device = 0; device < to.mesh.devices(); ++device) {
    std::ranges::copy(boxes_received(type, from, to, device),
                      std::back_inserter(listed_by_receivers));
  }
  for (int64_t device = 0; device < from.mesh.devices(); ++device) {
    const auto copies = boxes_sent(type, from, to, device);
    EXPECT_TRUE(std::ranges::is_sorted(copies, {}, &BoxCopy::to));
    for (const BoxCopy& copy : copies) {
      EXPECT_EQ(copy.from, device);
      copy_box(copy.box, sent[static_cast<size_t>(device)], box_of(type, from, device).begin,
               received[static_cast<size_t>(copy.to)], box_of(type, to, copy.to).begin);
    }
    std::ranges::copy(copies, std::back_inserter(listed_by_senders));
  }
  std::ranges::sort(listed_by_receivers);
  std::ranges::sort(listed_by_senders);
  EXPECT_EQ(listed_by_receivers, listed_by_senders);
  return received;
}

TEST(Boxes, BringEveryShardingOfOneMeshToEveryOneOfAnother) {
  const std::vector<Mesh> meshes = {Mesh{{{"a", 2}}}, Mesh{{{"a", 2}, {"b", 3}}},
                                    Mesh{{{"a", 4}, {"b", 2}}},
                                    Mesh{{{"a", 2}, {"b", 2}, {"c", 2}}}};
  std::mt19937_64 random(test_seed());
  for (const Mesh& from_mesh : meshes) {
    for (const Mesh& to_mesh : meshes) {
      const auto from = all_shardings(from_mesh, 2), to = all_shardings(to_mesh, 2);
      for (int pair = 0; pair < 60; ++pair) {
        const Type type = pair % 2 == 0 ? f32({12, 16}) : f32({7, 5});
        MeshSharding begin{from_mesh, from[random() % from.size()]};
        const MeshSharding end{to_mesh, to[random() % to.size()]};
        for (Placement& placement : begin.sharding) {
          if (is_partial(placement)) placement = replicate();
        }
        SCOPED_TRACE(cat(to_string(type), ": ", to_string(from_mesh, begin.sharding), " -> ",
                         to_string(to_mesh, end.sharding)));
        const HeldParts received = moved(type, begin, end);
        const HeldAs wanted(type, to_mesh, end.sharding);
        ASSERT_TRUE(wanted.fits(received, HeldAs(type, from_mesh, begin.sharding).whole()));
      }
    }
  }
}

TEST(Boxes, DevicesThatHoldTheSameSendAlike) {
  const Mesh eight{{{"a", 8}}}, cube{{{"a", 2}, {"b", 4}}};
  const Type type = f32({16, 4});
  for (int64_t device = 0; device < 8; ++device) {
    const auto whole_to_parts =
        boxes_sent(type, {eight, {replicate()}}, {eight, {shard(0)}}, device);
    EXPECT_EQ(whole_to_parts.size(), 1u);
    const auto halves_to_whole =
        boxes_sent(type, {cube, {shard(0), replicate()}}, {eight, {replicate()}}, device);
    EXPECT_EQ(halves_to_whole.size(), 2u);
  }
}

// There are as many copies as devices in all; listing those of other devices would take too long.
TEST(Boxes, ADeviceOfALargeMeshListsItsOwnCopiesOnly) {
  const Mesh large{{{"a", 1 << 11}, {"b", 1 << 11}}};
  const Type type = f32({1 << 11, 1 << 11});
  const MeshSharding rows{large, {shard(0), replicate()}}, columns{large, {replicate(), shard(0)}};
  EXPECT_EQ(boxes_sent(type, rows, columns, 12345).size(), 1u);
  EXPECT_EQ(boxes_received(type, rows, columns, 12345).size(), 1u);
}

TEST(Boxes, HoldNoPadding) {
  const Mesh four{{{"a", 4}}}, two{{{"a", 2}}};
  const Type type = f32({5});
  EXPECT_EQ(box_of(type, {four, {shard(0)}}, 2), (Box{{4}, {1}}));
  EXPECT_EQ(box_of(type, {four, {shard(0)}}, 3), (Box{{5}, {0}}));
  EXPECT_TRUE(boxes_sent(type, {four, {shard(0)}}, {two, {shard(0)}}, 3).empty());
}

TEST(Boxes, TermsOfASumDoNotLeaveTheirMesh) {
  const Mesh mesh{{{"a", 2}}};
  try {
    boxes_sent(f32({4}), {mesh, {partial()}}, {mesh, {replicate()}}, 0);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("terms can't leave their mesh"));
  }
}

}  // namespace
}  // namespace gangway::tests
