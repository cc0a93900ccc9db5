// The data of the page's curves: samples in, JSON out.
#include "tools/live/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace gangway::tool {
namespace {

using nlohmann::json;

ProgramStatus program(uint64_t id, double step, double used = 0.5) {
  return {.id = id,
          .name = cat("p", id),
          .owner = "ann",
          .used = used,
          .reported = {{"step", step}, {"loss", 1 / (step + 1)}},
          .devices = 2};
}

ClusterStatus cluster(std::vector<ProgramStatus> programs) {
  return {.hosts = {{.name = "h", .devices = 8}}, .programs = std::move(programs), .metrics = ""};
}

TEST(History, ReportsOfProgramsBehindASampleAreGiven) {
  History history;
  EXPECT_EQ(json::parse(history.to_json(0)),
            json::parse(R"({"sample":0,"since_ms":0,"programs":[]})"));
  history.add(cluster({program(1, 10)}), 1000);
  history.add(cluster({program(1, 11), program(2, 0)}), 2000);
  const json all = json::parse(history.to_json(0));
  EXPECT_EQ(all["sample"], 2);
  EXPECT_EQ(all["since_ms"], 1000);
  ASSERT_EQ(all["programs"].size(), 2u);
  EXPECT_EQ(all["programs"][0]["program"], "p1");
  EXPECT_EQ(all["programs"][0]["owner"], "ann");
  EXPECT_EQ(all["programs"][0]["ended"], false);
  EXPECT_EQ(all["programs"][0]["points"],
            json::parse("[[1,1000,10,0.09090909090909091,null,0.125],"
                        "[2,2000,11,0.08333333333333333,null,0.125]]"));
  const json later = json::parse(history.to_json(1));
  EXPECT_EQ(later["programs"][0]["points"].size(), 1u);
  EXPECT_EQ(later["programs"][0]["points"][0][0], 2);
  EXPECT_EQ(json::parse(history.to_json(2))["programs"][0]["points"], json::array());
}

TEST(History, ViewersAreLeftOutAndNonFiniteNumbersAreNull) {
  History history;
  ProgramStatus odd = program(3, 1);
  odd.reported = {{"loss", std::nan("")}, {"tokens_per_s", INFINITY}, {"other", 1}};
  history.add(cluster({{.id = 1, .name = "gangway ps"}, odd}), 5);
  const json all = json::parse(history.to_json(0));
  ASSERT_EQ(all["programs"].size(), 1u);
  EXPECT_EQ(all["programs"][0]["points"], json::parse("[[1,5,null,null,null,0.125]]"));
}

TEST(History, ALongRunIsThinnedOverItsWholeLength) {
  History history;
  const int samples = 10 * static_cast<int>(History::kPointsMax);
  for (int i = 1; i <= samples; ++i) history.add(cluster({program(1, i)}), 1000 * i);
  const json points = json::parse(history.to_json(0))["programs"][0]["points"];
  EXPECT_LE(points.size(), History::kPointsMax);
  EXPECT_GE(points.size(), History::kPointsMax / 2);
  const int stride = points[1][0].get<int>() - points[0][0].get<int>();
  EXPECT_GT(stride, 1);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i][0], static_cast<int>(i + 1) * stride);
    EXPECT_EQ(points[i][2], points[i][0]);
  }
  EXPECT_GT(points.back()[0], samples - stride);
}

TEST(History, ProgramsAreBoundedAndEndedOnesAreForgottenFirst) {
  History history;
  std::vector<ProgramStatus> running;
  for (uint64_t id = 1; id <= History::kProgramsMax; ++id) running.push_back(program(id, 1));
  history.add(cluster(running), 1);
  running.erase(running.begin() + 4);  // 5 has ended.
  history.add(cluster(running), 2);
  EXPECT_EQ(json::parse(history.to_json(0))["programs"][4]["ended"], true);
  running.push_back(program(1000, 1));
  history.add(cluster(running), 3);
  const json all = json::parse(history.to_json(0))["programs"];
  EXPECT_EQ(all.size(), History::kProgramsMax);
  for (const json& one : all) EXPECT_NE(one["id"], 5);
  EXPECT_EQ(all.back()["id"], 1000);
  running.push_back(program(1001, 1));  // No program has ended: the first is dropped.
  history.add(cluster(running), 4);
  EXPECT_EQ(json::parse(history.to_json(0))["programs"].size(), History::kProgramsMax);
}

TEST(History, NamesAreTextOfJsonWhateverIsInThem) {
  History history;
  ProgramStatus hostile = program(1, 1);
  hostile.name = "\"]}</script>\x01\xff\n";
  history.add(cluster({hostile}), 1);
  const json all = json::parse(history.to_json(0));
  EXPECT_EQ(all["programs"][0]["program"], "\"]}</script>\x01\xef\xbf\xbd\n");
}

}  // namespace
}  // namespace gangway::tool
