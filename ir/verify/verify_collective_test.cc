// What the verifier says of ops of local functions: their axes and what follows from the mesh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/verify/verify.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// What is wrong with one node on f32[6, 4] over {data: 2, model: 3}.
std::string mistakes_of(Op op, Attrs attrs, bool local = true) {
  Builder b("f", Mesh{{{"data", 2}, {"model", 3}}});
  const Value x = b.parameter("x", f32({6, 4}));
  b.result("y", op == Op::axis_index ? b.emit1(op, {}, std::move(attrs), {"model.cc", 14})
                                     : b.emit1(op, {x}, std::move(attrs), {"model.cc", 14}));
  Function f = b.build();
  f.local = local;
  std::string text;
  for (const Mistake& mistake : verify(f))
    text += cat(mistake.message, " @", mistake.file, ":", mistake.line, "\n");
  return text;
}

Attrs gather(const char* axes, int64_t parts) {
  return {{"axes", std::string(axes)}, {"dim", int64_t{0}}, {"parts", parts}, {"size", 6 * parts}};
}

TEST(VerifyCollective, AxesOfTheMeshInAnyOrderAreGood) {
  EXPECT_THAT(mistakes_of(Op::all_gather, gather("data", 2)), IsEmpty());
  EXPECT_THAT(mistakes_of(Op::all_gather, gather("model,data", 6)), IsEmpty());
  EXPECT_THAT(mistakes_of(Op::axis_index, {{"axes", std::string("model")}}), IsEmpty());
  EXPECT_THAT(
      mistakes_of(Op::collective_broadcast, {{"axes", std::string("model")}, {"root", int64_t{2}}}),
      IsEmpty());
}

// The partitioner counts on what a global function says being the same on every device.
TEST(VerifyCollective, GlobalFunctionsHaveNone) {
  const std::string text =
      mistakes_of(Op::axis_index, {{"axes", std::string("model")}}, /*local=*/false);
  EXPECT_THAT(text, HasSubstr("axis_index: only local functions have it"));
  EXPECT_THAT(text, HasSubstr("@model.cc:14"));
}

TEST(VerifyCollective, AnAxisThatTheMeshLacksIsNamedWithTheUsersLine) {
  for (const auto& [op, attrs] :
       {std::pair{Op::all_reduce, Attrs{{"axes", std::string("data,stage")}}},
        {Op::axis_index, Attrs{{"axes", std::string("stage")}}},
        {Op::shard_slice,
         Attrs{{"axis", std::string("stage")}, {"dim", int64_t{0}}, {"parts", int64_t{2}}}}}) {
    EXPECT_THAT(mistakes_of(op, attrs),
                HasSubstr(cat(to_string(op),
                              ": axis \"stage\" is not in the mesh: expected one of "
                              "{data: 2, model: 3}")));
    EXPECT_THAT(mistakes_of(op, attrs), HasSubstr("@model.cc:14"));
  }
}

TEST(VerifyCollective, PartsAreAsManyAsTheMembers) {
  EXPECT_THAT(mistakes_of(Op::all_gather, gather("data,model", 3)),
              HasSubstr("all_gather: parts differs from the mesh: expected 6, the devices along "
                        "data,model of {data: 2, model: 3}, got 3"));
  EXPECT_THAT(
      mistakes_of(Op::shard_slice,
                  {{"axis", std::string("data")}, {"dim", int64_t{0}}, {"parts", int64_t{3}}}),
      HasSubstr("shard_slice: parts differs from the mesh: expected 2"));
}

TEST(VerifyCollective, TheRootIsAMember) {
  EXPECT_THAT(
      mistakes_of(Op::collective_broadcast, {{"axes", std::string("model")}, {"root", int64_t{3}}}),
      HasSubstr("root is out of range: expected 0 to 2, the members along model of "));
}

}  // namespace
}  // namespace gangway
