// Tests the verifier on ops of local functions: their axes and what follows from the mesh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/build/builder.h"
#include "ir/verify/verify.h"
#include "ir/wire/wire.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Mistakes of one node on f32[6, 4] over {data: 2, model: 3}.
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
TEST(VerifyCollective, GlobalFunctionsHaveNoCollectiveOps) {
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

// f(x: f32[6, 4]) = the body of this node, a sum over all devices; or that inside of a call.
Function sum_inside(Op outer, bool in_a_call) {
  const Mesh mesh{{{"data", 2}, {"model", 3}}};
  const auto around = [&](const char* name, Op op, std::shared_ptr<const Function> inside) {
    Builder b(name, mesh);
    const Value x = b.parameter("x", f32({6, 4}));
    Attrs attrs;
    if (op == Op::all_reduce)
      attrs = {{"axes", std::string("data")}, {"reduction", std::string("sum")}};
    b.result("y", b.emit(op, {x}, attrs, {"model.cc", 14}, std::move(inside))[0]);
    Function f = b.build();
    f.local = true;
    return f;
  };
  auto body = std::make_shared<const Function>(around("sum", Op::all_reduce, nullptr));
  if (in_a_call) body = std::make_shared<const Function>(around("within", Op::call, body));
  return around("f", outer, body);
}

TEST(VerifyCollective, DevicesDoNotMeetInsideAFusion) {
  for (const bool in_a_call : {false, true}) {
    EXPECT_THAT(
        error_text_of([&] { function_from_wire(to_wire(sum_inside(Op::fusion, in_a_call))); }),
        AllOf(HasSubstr("fusion: devices meet in the body, in \"all_reduce\": expected ops "
                        "that each device does alone"),
              HasSubstr("at model.cc:14")));
    EXPECT_THAT(verify(sum_inside(Op::call, in_a_call)), IsEmpty());
  }
}

}  // namespace
}  // namespace gangway
