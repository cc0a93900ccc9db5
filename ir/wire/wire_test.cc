// The wire form: what is not a graph is an error, never a crash.
#include "ir/wire/wire.h"

#include <capnp/serialize-packed.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/build/builder.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/text/text.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "ir/wire/graph.capnp.h"
#include "ir/wire/program_file.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Program small_program() {
  ProgramBuilder b("step", Mesh{{{"data", 2}}});
  Value w = b.state("w", normal(f32({8}), 0.1));
  Value x = b.input("x", f32({8}), {{"data", shard(0)}});
  b.update(w, w * 0.5 + 1);
  b.output("loss", sum(x));
  b.require_finite("loss");
  return b.build();
}

// The outcome of reading: the error's text, or "" for a graph, which must be valid and stable.
template <class Read>
std::string outcome(Read read) {
  try {
    auto graph = read();
    EXPECT_TRUE(verify(graph).empty());
    EXPECT_EQ(print(graph), print(graph));
    return "";
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::kBug) << error.what();
    EXPECT_STRNE(error.what(), "");
    return error.what();
  }
}

std::string read_program(const Bytes& bytes) {
  return outcome([&] { return program_from_wire(bytes); });
}

// Every truncation, every flipped bit, appended bytes.
template <class Read>
void damage(const Bytes& whole, Read read) {
  for (size_t size = 0; size < whole.size(); ++size) {
    Bytes bytes(whole.begin(), whole.begin() + static_cast<int>(size));
    EXPECT_NE(read(bytes), "") << "truncated to " << size;
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes bytes = whole;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    read(bytes);
  }
  for (int extra = 0; extra < 256; ++extra) {
    Bytes bytes = whole;
    bytes.insert(bytes.end(), static_cast<size_t>(1 + extra % 9), static_cast<std::byte>(extra));
    EXPECT_NE(read(bytes), "") << "followed by " << extra;
  }
}

TEST(Wire, DamagedBytesGiveAnErrorOrAValidProgram) {
  damage(to_wire(small_program()), read_program);
}

TEST(Wire, DamagedFunctionsGiveAnErrorOrAValidFunction) {
  Bytes bytes = to_wire(*small_program().functions.back());
  damage(bytes,
         [](const Bytes& damaged) { return outcome([&] { return function_from_wire(damaged); }); });
}

TEST(ProgramFileBytes, DamagedBytesGiveAnError) {
  damage(to_file_bytes(small_program()), [](const Bytes& bytes) {
    return outcome([&] { return program_from_file_bytes(bytes, "x.gwp"); });
  });
}

TEST(ProgramFileBytes, EveryFlippedBitIsNoticed) {
  Bytes whole = to_file_bytes(small_program());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes bytes = whole;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(outcome([&] { return program_from_file_bytes(bytes, "x.gwp"); }), "") << bit;
  }
}

TEST(Text, DamagedTextsGiveAnErrorOrAValidProgram) {
  std::string whole = print(small_program());
  auto read = [](const std::string& text) { return outcome([&] { return parse_program(text); }); };
  ASSERT_EQ(read(whole), "");
  for (size_t size = 0; size + 2 < whole.size(); ++size) {
    EXPECT_NE(read(whole.substr(0, size)), "") << "truncated to " << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string text = whole;
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 8)));
    read(text);
    read(whole.substr(0, i) + whole.substr(i + 1));
  }
}

TEST(Wire, AFunctionIsNotAProgram) {
  Program p = small_program();
  EXPECT_THAT(read_program(to_wire(*p.functions[0])),
              HasSubstr("wire form: this is a function: expected a program"));
  EXPECT_THAT(outcome([&] { return function_from_wire(to_wire(p)); }),
              HasSubstr("wire form: this is a program: expected a function"));
}

TEST(Wire, InvalidFunctionsAreRefusedByTheReader) {
  Function f = *small_program().functions[0];
  f.results[0] = 50;
  EXPECT_THAT(outcome([&] { return function_from_wire(to_wire(f)); }),
              HasSubstr("result %50 does not exist"));
}

TEST(Wire, ALongNameUsedOftenIsRefusedBeforeItFillsMemory) {
  Builder b("f");
  b.parameter("x", f32());
  Function f = b.build();
  f.locs.assign(5'000, {.file = std::string(60'000, 'x'), .line = 1});
  EXPECT_THAT(outcome([&] { return function_from_wire(to_wire(f)); }), HasSubstr("too large"));
}

TEST(Wire, IsCompact) {
  Builder b("chain");
  Value x = b.parameter("x", f32({64, 64}));
  for (int i = 0; i < 1000; ++i) x = exp(x, {"model.cc", 1 + i});
  b.result("y", x);
  Function f = b.build();
  EXPECT_LT(to_wire(f).size(), 30u * f.nodes.size());
}

// The version is the first word of the root struct's data.
uint32_t version_of(const Bytes& bytes) {
  kj::ArrayInputStream in(
      kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
  capnp::PackedMessageReader message(in);
  return message.getRoot<wire::Graph>().getVersion();
}

constexpr const char* kCut =
    "func @f(%0 \"x\": f32[12] {a: shard(0)@1, b: shard(0)}) mesh {a: 2, b: 3} { return %0 \"y\" }";

TEST(Wire, AGraphIsOfVersion1UntilAnOrderAReductionOrAPriorityNeeds2) {
  Function f = parse_function(kCut);
  EXPECT_EQ(version_of(to_wire(f)), 2u);
  f.parameters[0].placements[0].second = shard(0);
  EXPECT_EQ(version_of(to_wire(f)), 1u);
  f.parameters[0].priorities = {2, 0};
  EXPECT_EQ(version_of(to_wire(f)), 2u);
  EXPECT_TRUE(same_graph(function_from_wire(to_wire(f)), f));
  f.parameters[0].priorities = {};
  EXPECT_EQ(version_of(to_wire(f)), 1u);
  f.nodes.push_back({.op = Op::exp, .inputs = {0}, .first_result = 1});
  f.types.push_back(f.types[0]);
  f.infos.emplace_back();
  f.shardings = {{shard(0), shard(0)}, {partial(Reduction::kMax), replicate()}};
  EXPECT_EQ(version_of(to_wire(f)), 2u);
  EXPECT_TRUE(same_graph(function_from_wire(to_wire(f)), f));
}

TEST(Wire, NumericsOfAProgramAreWritten) {
  Program p = parse_program("program @p { slice \"main\" mesh {} }");
  EXPECT_EQ(version_of(to_wire(p)), 1u);
  for (const Numerics& chosen :
       {Numerics{.allow_tf32 = true}, Numerics{.deterministic = true},
        Numerics{.deterministic = false}, Numerics{.deterministic = false, .allow_tf32 = true}}) {
    p.numerics = chosen;
    EXPECT_EQ(version_of(to_wire(p)), 4u);
    EXPECT_EQ(program_from_wire(to_wire(p)).numerics, chosen);
    EXPECT_EQ(parse_program(print(p)).numerics, chosen) << print(p);
  }
}

TEST(Wire, AVersionThatIsNotKnownIsRefused) {
  Bytes bytes = to_wire(parse_function(kCut));
  capnp::MallocMessageBuilder message;
  message.initRoot<wire::Graph>().setVersion(5);
  kj::VectorOutputStream out;
  capnp::writePackedMessage(out, message);
  bytes.assign(reinterpret_cast<const std::byte*>(out.getArray().begin()),
               reinterpret_cast<const std::byte*>(out.getArray().end()));
  EXPECT_THAT(outcome([&] { return function_from_wire(bytes); }),
              HasSubstr("this is version 5: expected version 1 to 4"));
}

TEST(Wire, DamagedPlacementsGiveAnErrorOrAValidFunction) {
  damage(to_wire(parse_function(kCut)),
         [](const Bytes& damaged) { return outcome([&] { return function_from_wire(damaged); }); });
}

TEST(ContentHash, TellsCutOrdersAndPrioritiesApart) {
  Function f = parse_function(kCut);
  std::set<std::string> hashes = {to_string(content_hash(f))};
  for (int order : {0, 2}) {
    f.parameters[0].placements[0].second = shard(0, order);
    EXPECT_TRUE(hashes.insert(to_string(content_hash(f))).second) << order;
  }
  f.parameters[0].priorities = {0, 1};
  EXPECT_TRUE(hashes.insert(to_string(content_hash(f))).second);
}

std::shared_ptr<const Function> layer_body() {
  Builder b("layer");
  Value x = b.parameter("x", f32({4}));
  for (int i = 0; i < 50; ++i) x = exp(x, {"model.cc", 1 + i});
  b.result("y", x);
  return std::make_shared<const Function>(b.build());
}

Function calls(int count, bool shared) {
  Builder b("f");
  const auto body = layer_body();
  Value x = b.parameter("x", f32({4}));
  for (int i = 0; i < count; ++i)
    x = b.emit(Op::call, {x}, {}, {"model.cc", 7}, shared ? body : layer_body())[0];
  b.result("y", x);
  return b.build();
}

TEST(Wire, ABodyIsWrittenOnceHoweverManyNodesNameIt) {
  const Function f = calls(100, true);
  EXPECT_LT(to_wire(f).size(), to_wire(calls(100, false)).size() / 10);
  const Function back = function_from_wire(to_wire(f));
  EXPECT_TRUE(same_graph(back, f));
  EXPECT_EQ(back.nodes[0].body, back.nodes[99].body) << "and read once";
  const Function parsed = parse_function(print(f));
  EXPECT_EQ(parsed.nodes[0].body, parsed.nodes[99].body);
}

TEST(Wire, AProgramWithoutBodiesIsWrittenAsVersion1) {
  EXPECT_EQ(version_of(to_wire(small_program())), 1u);
  EXPECT_EQ(version_of(to_wire(calls(1, true))), 2u);
}

Program stacked_program() {
  ProgramBuilder b("step");
  StateTree layer;
  layer.set("w", zeros(f32({4})));
  b.state("layers", stacked(layer, 3, 1));
  return b.build();
}

TEST(Wire, StackedLayersAreOfVersion3AndNothingElseIs) {
  Program p = stacked_program();
  EXPECT_EQ(version_of(to_wire(p)), 3u);
  const Program back = program_from_wire(to_wire(p));
  EXPECT_TRUE(same_graph(back, p));
  EXPECT_EQ(back.nodes[0].stacked, (StackedLayers{1, 3, 1}));
  p.nodes[0].stacked->base = "stages";
  EXPECT_EQ(version_of(to_wire(p)), 3u);
  EXPECT_TRUE(same_graph(program_from_wire(to_wire(p)), p));
  p.nodes[0].stacked.reset();
  EXPECT_EQ(version_of(to_wire(p)), 1u);
  EXPECT_FALSE(program_from_wire(to_wire(p)).nodes[0].stacked.has_value());
}

// The keys of 96 layers, and of 12, beside the same graph.
TEST(Wire, KeysOfManyLayersAreWrittenInThirtyTwoBits) {
  const auto program = [](int64_t layers) {
    ProgramBuilder b("deep");
    StateTree layer;
    layer.set("w", normal(f32({4, 4}), 0.1));
    b.state("layers", stacked(layer, layers));
    return b.build();
  };
  const Program deep = program(96);
  const Bytes bytes = to_wire(deep);
  EXPECT_EQ(version_of(bytes), 3u);
  EXPECT_TRUE(same_graph(program_from_wire(bytes), deep));
  const size_t keys = 2 * (96 - 12);
  EXPECT_LE(bytes.size() - to_wire(program(12)).size(), keys * 4 + 32);

  Builder b("table");
  std::vector<int32_t> numbers(17, -1);
  b.result("y", table(b, numbers));
  Function f = b.build();
  EXPECT_TRUE(same_graph(function_from_wire(to_wire(f)), f));
  EXPECT_EQ(version_of(to_wire(f)), 3u);
  damage(to_wire(f),
         [](const Bytes& damaged) { return outcome([&] { return function_from_wire(damaged); }); });
}

TEST(Wire, DamagedStacksGiveAnErrorOrAValidProgram) {
  damage(to_wire(stacked_program()), read_program);
}

// A scan, whose attributes `ahead` and `next` came later than the first messages; random tensors
// have such ones too.
constexpr const char* kScanOfDraws =
    "body 0 func @layer(%0 \"c\": f32[4], %1 \"key\": i32[2]) { "
    "%2: f32[4] = random_uniform %1 {dims = [4], dtype = f32} %3: f32[4] = add %0, %2 "
    "return %3 \"c\" } "
    "func @f(%0 \"x\": f32[4], %1 \"keys\": i32[3, 2]) { "
    "%2: f32[4] = scan %0, %1 {carries = 1, length = 3} body 0 return %2 \"y\" }";

// Without the attributes that are as their rows have them when none is given.
Function without_defaults(Function function) {
  for (Node& node : function.nodes) {
    Attrs said;
    for (const auto& [name, value] : node.attrs) {
      const auto is_default = [&](const AttrSpec& spec) {
        return spec.name == name && spec.default_value == value;
      };
      if (!std::ranges::any_of(row(node.op).attrs, is_default)) said.set(name, value);
    }
    node.attrs = said;
    if (node.body) node.body = std::make_shared<Function>(without_defaults(*node.body));
  }
  return function;
}

TEST(Wire, AttributesThatAMessageLacksAreAsTheirRowsHaveThem) {
  const Function f = parse_function(kScanOfDraws);
  Function old = without_defaults(f);
  ASSERT_EQ(old.nodes[0].attrs.size(), 2u);
  ASSERT_EQ(old.nodes[0].body->nodes[0].attrs.size(), 2u);
  const Function read = function_from_wire(to_wire(old));
  EXPECT_TRUE(same_graph(read, f));
  EXPECT_EQ(content_hash(read), content_hash(f));
  old.nodes[0].attrs = {{"length", int64_t{3}}};
  EXPECT_THAT(outcome([&] { return function_from_wire(to_wire(old)); }),
              HasSubstr("scan: attribute carries is missing"));
}

TEST(Wire, DamagedBodiesGiveAnErrorOrAValidFunction) {
  damage(to_wire(parse_function("body 0 func @g(%0 \"x\": f32[4]) { return %0 \"y\" } "
                                "func @f(%0 \"x\": f32[4]) { %1: f32[4] = call %0 body 0 "
                                "%2: f32[4] = scan %1 {carries = 1, length = 3} body 0 "
                                "return %2 \"y\" }")),
         [](const Bytes& damaged) { return outcome([&] { return function_from_wire(damaged); }); });
}

TEST(ContentHash, DoesNotDependOnWhetherEqualBodiesAreShared) {
  EXPECT_TRUE(same_graph(calls(3, true), calls(3, false)));
  EXPECT_EQ(content_hash(calls(3, true)), content_hash(calls(3, false)));
}

TEST(ContentHash, IsTheSameInEveryProcessAndVersion) {
  // A change of this number breaks caches between versions: then kWireVersionMin must change too.
  Function f = parse_function("func @f(%0 \"x\": f32[4]) { %1: f32[4] = exp %0 return %1 \"y\" }");
  EXPECT_EQ(to_string(content_hash(f)), "7cc553ba27152ba0b25ca595b104d72d");
}

}  // namespace
}  // namespace gangway
