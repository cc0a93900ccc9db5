// The page that `gangway train` leaves, of a training that was stopped before its end.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "runtime/base/cat.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using nlohmann::json;

TEST(TrainingPageTest, ThePageOfAStoppedTrainingShowsTheStepsThatItDid) {
  TempDir folder("gangway_page");
  const std::string text = folder.path() / "text.txt", out = folder.path() / "out";
  {
    std::ofstream file(text);
    for (int verse = 1; verse <= 2000; ++verse) file << "And this is verse " << verse << ".\n";
  }
  AnonymousFile said("train");
  ChildProcess training({.arguments = {tests::gangway_tool(),
                                       "train",
                                       "quickstart",
                                       "--text",
                                       text,
                                       "--out",
                                       out,
                                       "--connect",
                                       "local:1x2",
                                       "--steps",
                                       "1000000",
                                       "--batch",
                                       "2",
                                       "--layers",
                                       "1",
                                       "--dim",
                                       "16",
                                       "--heads",
                                       "2",
                                       "--experts",
                                       "0",
                                       "--seq",
                                       "16",
                                       "--sample-bytes",
                                       "0"},
                         .output_file = said.path()});
  ASSERT_TRUE(eventually([&] { return output_of(said).find("\nstep ") != std::string::npos; }))
      << output_of(said);
  training.signal(SIGTERM);
  EXPECT_TRUE(training.wait().ok()) << output_of(said);
  const std::string printed = output_of(said);
  const size_t from = printed.rfind("{\"stopped\"");
  ASSERT_NE(from, printed.npos) << printed;
  const json report = json::parse(printed.substr(from, printed.find('\n', from) - from));
  ASSERT_TRUE(report["stopped"]) << printed;

  Browser browser({});
  browser.open(out + "/page.html");
  EXPECT_EQ(browser.evaluate("return gangway.program.name"), "train_step");
  EXPECT_EQ(browser.evaluate("return gangway.panels.open"), "Curves");
  const json steps = browser.evaluate("return gangway.curves.steps");
  ASSERT_GT(steps.size(), 1u);
  EXPECT_EQ(steps.back(), report["steps"]) << report;
  browser.evaluate("document.querySelector('.curves').focus()");
  browser.press("\xee\x80\x90");  // The key End.
  const std::string line =
      browser.evaluate("return document.querySelector('.said-at-step').textContent");
  EXPECT_EQ(line.find(cat("Step ", steps.back().get<int>(), ": ")), 0u) << line;
  EXPECT_GT(browser.evaluate("return gangway.timeline.spans.length"), 100);
  browser.evaluate("gangway.panels.choose('Timeline')");
  EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
  browser.screenshot("stopped_training");
  EXPECT_EQ(browser.console(), json::array());
}

}  // namespace
}  // namespace gangway
