#include "controller/service/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "protocol/owner.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  return error_of([&] { parse_config(text, "gangway.json"); }).what();
}

TEST(ConfigFileTest, QuotasAreReadByOwner) {
  const Quotas quotas =
      parse_config(R"({"quotas": {"ann": {"devices": 8, "memory_bytes": 17179869184, "programs": 4},
                                  "bob": {"devices": 0, "controller_bytes": 4096,
                                          "checkpoint_bytes": 0}},
                      "quota_of_others": {"programs": 1}})",
                   "gangway.json")
          .quotas;
  EXPECT_EQ(quotas.of("ann").devices, 8);
  EXPECT_EQ(quotas.of("ann").memory_bytes, 17179869184);
  EXPECT_EQ(quotas.of("ann").programs, 4);
  EXPECT_EQ(quotas.of("bob").devices, 0);
  EXPECT_EQ(quotas.of("bob").programs, std::nullopt);
  EXPECT_EQ(quotas.of("bob").controller_bytes, 4096);
  EXPECT_EQ(quotas.of("bob").checkpoint_bytes, 0);
  EXPECT_EQ(quotas.of("ann").checkpoint_bytes, std::nullopt);
  EXPECT_EQ(quotas.of("carl").programs, 1);
  EXPECT_EQ(parse_config("{}", "gangway.json").quotas.of("ann").devices, std::nullopt);
}

TEST(ConfigFileTest, AMistakeIsNamedWithFileLineAndKey) {
  EXPECT_THAT(refusal("{\n \"quota\": {}}"),
              HasSubstr("gangway.json:2: key \"quota\" is not known: expected \"quotas\" or"));
  EXPECT_THAT(refusal("{\"quotas\":\n{\"ann\":\n{\"device\": 3}}}"),
              HasSubstr("gangway.json:3: key \"quotas.ann.device\" is not known: expected \"dev"));
  EXPECT_THAT(refusal("{\"quotas\":\n{\"an n\": {}}}"),
              HasSubstr("gangway.json:2: key \"quotas.an n\" is not known: expected an owner's"));
  EXPECT_THAT(refusal("{\"quotas\": {\"ann\":\n{\"devices\": 3,\n\n\"devices\": 4}}}"),
              HasSubstr("gangway.json:4: key \"quotas.ann.devices\" is there twice"));
  for (const char* value : {"-1", "1.5", "\"8\"", "true", "null", "[8]"}) {
    EXPECT_THAT(refusal(cat("{\"quotas\": {\"ann\": {\n\"devices\": ", value, "\n}}}")),
                HasSubstr("gangway.json:2: key \"quotas.ann.devices\" has a value of the wrong "
                          "kind: expected a whole number, 0 or more"))
        << value;
  }
  EXPECT_THAT(refusal("{\"quotas\": {\"ann\": {\"devices\": {}}}}"),
              HasSubstr("key \"quotas.ann.devices\" has a value of the wrong kind"));
  EXPECT_THAT(refusal("{\"quotas\":\n3}"),
              HasSubstr("gangway.json:1: key \"quotas\" has a value of the wrong kind: expected an "
                        "object"));
  EXPECT_THAT(refusal("{\"quotas\": {\"ann\":\n{\"devices\": 18446744073709551615}}}"),
              HasSubstr("gangway.json:2: key \"quotas.ann.devices\" has a value of the wrong kind: "
                        "expected a smaller number"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("{\n\n,}"), HasSubstr("gangway.json:3: is no JSON"));
}

TEST(ConfigFileTest, QuotasAtTheirBoundsAreReadAndQuotasBeyondThemAreRefused) {
  const auto text = [](const std::string& owner, const std::string& size) {
    return cat("{\"quotas\": {\"", owner, "\": {\"memory_bytes\": ", size, "}}}");
  };
  const std::string owner(kOwnerBytesMax, 'o');
  EXPECT_EQ(parse_config(text(owner, "9223372036854775807"), "file").quotas.of(owner).memory_bytes,
            std::numeric_limits<int64_t>::max());
  EXPECT_THAT(refusal(text(owner, "9223372036854775808")), HasSubstr("a smaller number"));
  EXPECT_THAT(refusal(text(owner, "18446744073709551616")), HasSubstr("wrong kind"));
  EXPECT_THAT(refusal(text(owner, "-1")), HasSubstr("0 or more"));
  EXPECT_THAT(refusal(text(owner + "o", "1")), HasSubstr("expected an owner's name"));
}

TEST(ConfigFileTest, SizesThatContradictEachOtherAreRefused) {
  EXPECT_THAT(
      refusal("{\"quotas\": {\"ann\": {\n\"devices\": 3,\n\"programs\": 0}}}"),
      HasSubstr("gangway.json:3: key \"quotas.ann.programs\" contradicts its neighbours: no "
                "program may run"));
  EXPECT_THAT(refusal("{\"quota_of_others\": {\n\"devices\": 0,\n\"memory_bytes\": 1}}"),
              HasSubstr("gangway.json:3: key \"quota_of_others.memory_bytes\" contradicts"));
}

TEST(ConfigFileTest, AFileThatCanNotBeReadIsNamed) {
  EXPECT_THAT(error_of([] { read_config("/nowhere/gangway.json"); }).what(),
              HasSubstr("cannot read /nowhere/gangway.json: No such file or directory"));
  EXPECT_THAT(error_of([] { read_config("/"); }).what(),
              HasSubstr("cannot read /: Is a directory"));
}

}  // namespace
}  // namespace gangway
