// Opens one page that the tool wrote in a browser, and uses each of its parts once. slow/ has the
// tests that take longer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/page_programs.h"

namespace gangway {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kEnter = "\xee\x80\x87";
constexpr const char* kRight = "\xee\x80\x94";
constexpr const char* kDetails = "return document.getElementById('details').textContent";

std::string of_tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tests::gangway_tool());
  AnonymousFile said("tool");
  ChildProcess tool({.arguments = std::move(arguments), .output_file = said.path()});
  EXPECT_TRUE(tool.wait().ok()) << output_of(said);
  return output_of(said);
}

void expect_readable(Browser& browser) {
  browser.evaluate("gangway.view.draw()");
  EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
  EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
  EXPECT_EQ(browser.evaluate(kFaint), json::array());
}

void expect_keys_to_search_and_select(Browser& browser) {
  browser.evaluate("document.getElementById('picture').focus()");
  browser.press("/light");
  EXPECT_EQ(browser.evaluate("return document.activeElement.id"), "search");
  EXPECT_EQ(browser.evaluate("return document.querySelectorAll('#found li').length"), 1);
  browser.press(kEnter);
  EXPECT_EQ(browser.evaluate("return gangway.view.selected.label"), "light");
  EXPECT_EQ(browser.evaluate("return gangway.view.selected.expanded"), false);
  browser.press(kEnter);
  EXPECT_EQ(browser.evaluate("return gangway.view.selected.expanded"), true);
  browser.press(kRight);
  EXPECT_EQ(browser.evaluate("return gangway.view.selected.label"), "add");
  EXPECT_EQ(browser.evaluate("return document.getElementById('said').textContent"), "op add");
  const std::string details = browser.evaluate(kDetails);
  EXPECT_THAT(details, HasSubstr("f32[256, 256]"));
  EXPECT_THAT(details, HasSubstr("page_programs.h:"));
}

void expect_all_boxes_drawn(Browser& browser) {
  browser.click("#expand");
  browser.evaluate(
      "const { view, model } = gangway; view.scale = 1;"
      "view.show(model.boxes.find((box) => box.label === 'mul')); view.draw();");
  const json drawn = browser.evaluate(kDrawn);
  EXPECT_GT(drawn["labels"], 10);
  EXPECT_EQ(drawn["wrong"], json::array());
  const std::string details = browser.evaluate(kDetails);
  EXPECT_THAT(details, HasSubstr("liesshard(0)"));
  EXPECT_THAT(details, HasSubstr("is shard(0) on data"));
  expect_readable(browser);
}

void expect_overlays(Browser& browser) {
  const json names = browser.evaluate(
      "return [...document.querySelectorAll('#overlay option')].map((option) => option.value)");
  EXPECT_EQ(names, json({"No overlay", "Slice", "Device", "Scope", "Time in the timeline", "Memory",
                         "Time", "Critical path"}));
  browser.evaluate(
      "const choice = document.getElementById('overlay'); choice.value = 'Critical path';"
      "choice.dispatchEvent(new Event('change'));");
  EXPECT_EQ(browser.evaluate("return document.querySelectorAll('#legend li').length"), 2);
  expect_readable(browser);
  EXPECT_GT(browser.evaluate("return document.querySelectorAll('rect.heat4').length"), 4);
}

void expect_panels(Browser& browser) {
  const char* click =
      "[...document.querySelectorAll('#tabs button')]"
      ".find((tab) => tab.textContent === '%').click();";
  const auto open = [&](const std::string& name) {
    browser.evaluate(std::string(click).replace(std::string(click).find('%'), 1, name));
    EXPECT_EQ(browser.evaluate("return gangway.panels.open"), name);
    expect_readable(browser);
  };
  open("Device");
  EXPECT_EQ(
      browser.evaluate(
          "return [...document.querySelectorAll('#panel option')].map((at) => at.textContent)"),
      browser.evaluate("return gangway.devicePlan.devices.map(({ name }) => name)"));
  EXPECT_THAT(browser.evaluate("return document.querySelector('#panel p').textContent"),
              HasSubstr("Arena: "));
  EXPECT_THAT(browser.evaluate("return document.querySelector('.steps [role=option]').textContent"),
              HasSubstr("0  call"));
  open("Timeline");
  EXPECT_EQ(browser.evaluate("return [...document.querySelectorAll('.rows li')].filter("
                             "(row) => row.textContent.endsWith('% busy')).length"),
            browser.evaluate("return gangway.spans.rows.filter("
                             "({ kind }) => kind === 'device' || kind === 'collectives').length"));
  browser.screenshot("smoke");
}

TEST(PageSmokeTest, APageOfTheToolOpensReactsAndRunsNothingElse) {
  TempDir folder("gangway_page");
  const std::string program = folder.path() / "p.gwp", page = folder.path() / "p.html";
  two_ways().save(program);
  of_tool({"sim", "--program", program, "--html", page, "--hosts", "1", "--devices-per-host", "2"});
  Browser browser({});
  browser.open(page);
  EXPECT_EQ(browser.evaluate("return document.title"), "two ways - Gangway");
  EXPECT_EQ(browser.evaluate("return gangway.program"),
            json::parse(of_tool({"graph", program, "--json"})));
  expect_keys_to_search_and_select(browser);
  expect_all_boxes_drawn(browser);
  expect_overlays(browser);
  expect_panels(browser);
  EXPECT_EQ(browser.console(), json::array());

  // A script that a name would have brought in; the console says that it was refused.
  browser.evaluate(
      "const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
      "document.body.append(script);");
  EXPECT_EQ(browser.evaluate("return window.ran ?? 0"), 0);
  EXPECT_FALSE(browser.console().empty());
}

}  // namespace
}  // namespace gangway
