// Compares the page of a running controller, in a browser, while real programs train, with `gangway
// ps` and `gangway graph` of the same cluster.
#include <gtest/gtest.h>

#include <iostream>
#include <optional>

#include "gangway.h"
#include "tests/browser/browser.h"
#include "tests/browser/expanded_nodes.h"
#include "tests/browser/page_checks.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/support/small_programs.h"

namespace gangway {
namespace {

using nlohmann::json;

// y = x + x.
Program doubled(const Mesh& mesh) {
  ProgramBuilder b("doubled", mesh);
  const Value x = b.input("x", f32({16, 8}));
  b.output("y", x + x);
  return b.build();
}

class LivePageTest : public testing::Test {
 protected:
  LivePageTest() {
    start_controller("127.0.0.1:0");
    executor_.emplace(
        ChildOptions{.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                   "--devices", "4", "--name", "host-a", "--memory", "67108864"},
                     .output_file = executor_said_.path()});
  }

  void start_controller(const std::string& page) {
    controller_said_.emplace("controller");
    controller_.emplace(ChildOptions{.arguments = {tests::gangway_tool(), "controller", "--listen",
                                                   "127.0.0.1:0", "--page", page},
                                     .output_file = controller_said_->path()});
    static const std::string before = "page: ";
    ASSERT_TRUE(eventually([&] {
      const std::string said = output_of(*controller_said_);
      const size_t at = said.find(before);
      if (at == said.npos || said.find('\n', at) == said.npos) return false;
      page_ = said.substr(at + before.size(), said.find('\n', at) - at - before.size());
      return true;
    })) << output_of(*controller_said_);
    address_ = first_line_of(*controller_said_);
  }

  // A client with a program that trains when step() is called.
  struct Trainer {
    Client client;
    Slice slice;
    Executable step;
    int steps = 0;
    void train() {
      const HostTensor x = HostTensor::of<float>({16, 8}, std::vector<float>(16 * 8, 0.3f));
      const float loss = step.run({{"x", x}, {"scale", 1.0f}})["sum"].item<float>();
      ++steps;
      client.report(
          {{"step", static_cast<double>(steps)}, {"loss", loss}, {"tokens_per_s", 100.0}});
    }
  };
  Trainer trainer(const std::string& name) const {
    Client client = connect(address_, {.name = name});
    EXPECT_TRUE(eventually([&] { return client.status().hosts.size() == 1; }));
    Slice slice = client.allocate({.devices = 2});
    Executable step = slice.compile(accumulate(slice.mesh({{"data", 2}})), {.name = "step"});
    return {.client = client, .slice = slice, .step = step};
  }

  // The JSON that a command prints.
  static json of_tool(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    AnonymousFile output("output");
    ChildProcess child({.arguments = std::move(arguments), .output_file = output.path()});
    EXPECT_TRUE(child.wait().ok()) << output_of(output);
    return json::parse(output_of(output));
  }

  static testing::AssertionResult comes(Browser& browser, const std::string& condition) {
    if (eventually([&] { return browser.evaluate(cat("return ", condition)) == true; }))
      return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << condition << ": the page says\n"
           << browser.evaluate("return document.body.innerText").get<std::string>();
  }

  static json without_used(json rows) {
    for (json& row : rows) row.erase("used");  // The value is that of the last second.
    return rows;
  }

  std::optional<AnonymousFile> controller_said_;
  AnonymousFile executor_said_{"executor"};
  std::optional<ChildProcess> controller_;
  std::string address_, page_;
  std::optional<ChildProcess> executor_;
};

constexpr const char* kPanelText = "document.getElementById('panel').textContent";

TEST_F(LivePageTest, ShowsProgramsAsTheyComeAndTrainWithoutAReload) {
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, cat(kPanelText, ".includes('no program runs')")));
  ASSERT_TRUE(comes(browser, cat(kPanelText, ".includes('host-a')")));
  EXPECT_EQ(browser.evaluate("return location.search + location.hash"), "");
  const std::string token = page_.substr(page_.find('=') + 1), said = output_of(*controller_said_);
  EXPECT_EQ(token.size(), 64u);
  EXPECT_EQ(said.find(token), said.rfind(token)) << "it is printed, and not logged";
  EXPECT_EQ(
      browser.evaluate("return document.documentElement.outerHTML").get<std::string>().find(token),
      std::string::npos);
  browser.evaluate("window.mark = 'not loaded again'");

  Trainer first = trainer("first");
  for (int i = 0; i < 3; ++i) first.train();
  // The graph's model is the output of `gangway graph` for the same running program.
  ASSERT_TRUE(comes(browser, "gangway.program.name === 'accumulate'"));
  EXPECT_EQ(browser.evaluate("return gangway.program"),
            of_tool({"graph", "first", "--connect", address_, "--json"}));
  ASSERT_TRUE(comes(browser, "gangwayLive.cluster.now.programs[0]?.step === 3"));
  json rows = of_tool({"ps", "--connect", address_, "--json"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(eventually([&] {
    return without_used(browser.evaluate("return gangwayLive.cluster.now.programs")) ==
           without_used(rows);
  }));
  const json cells = browser.evaluate(
      "return [...document.querySelectorAll('#panel tr:nth-child(2) td')]"
      "  .map((cell) => cell.textContent)");
  ASSERT_EQ(cells.size(), 10u);
  EXPECT_EQ(cells[0], "first");
  EXPECT_EQ(cells[2], "3");
  EXPECT_NEAR(std::stod(cells[3].get<std::string>()), rows[0]["loss"], 0.1);
  EXPECT_EQ(cells[7], "2");
  EXPECT_TRUE(comes(browser, cat(kPanelText, ".includes('0-1 first, 2-3 free')")));

  first.train();
  EXPECT_TRUE(comes(browser, "gangwayLive.cluster.now.programs[0].step === 4"));
  EXPECT_TRUE(comes(
      browser, "[...gangwayLive.cluster.curves.values()][0].points.some((at) => at[2] === 4)"));
  EXPECT_TRUE(comes(browser, cat(kPanelText, ".includes('Loss')")));
  EXPECT_GT(browser.evaluate("return document.querySelectorAll('#panel .line').length"), 2);

  Trainer second = trainer("second");
  EXPECT_TRUE(comes(browser, cat(kPanelText, ".includes('0-1 first, 2-3 second')")));
  EXPECT_TRUE(comes(browser, "document.querySelectorAll('#chooser option').length === 2"));
  EXPECT_EQ(browser.evaluate("return window.mark"), "not loaded again");
  EXPECT_EQ(browser.console(), json::array());
}

// The curves of a cluster are those of a page: the page shows the step that the arrow keys chose,
// and keeps it while others come.
TEST_F(LivePageTest, SaysWhatATrainingWasAtAStep) {
  Trainer first = trainer("first");
  Browser browser({});
  browser.go(page_);
  // The controller takes a sample a second; each step is seen before the next one is taken.
  for (int step = 1; step <= 3; ++step) {
    first.train();
    ASSERT_TRUE(comes(browser, cat("gangwayLive.cluster.charts.steps.includes(", step, ")")));
  }
  browser.evaluate("document.querySelector('#panel .curves').focus()");
  browser.press("\xee\x80\x90\xee\x80\x92");  // The keys End and Left.
  const char* said = "document.querySelector('#panel .said-at-step').textContent";
  const std::string text = browser.evaluate(cat("return ", said));
  EXPECT_EQ(text.find("Step 2: first loss "), 0u) << text;
  EXPECT_NE(text.find(", 100 tokens/s"), text.npos) << text;
  first.train();
  ASSERT_TRUE(comes(browser, "gangwayLive.cluster.charts.steps.includes(4)"));
  EXPECT_EQ(browser.evaluate(cat("return ", said)), text);
  browser.press("\xee\x80\x94");  // The focus is still on the curves.
  const std::string next = browser.evaluate(cat("return ", said));
  EXPECT_EQ(next.find("Step 3: first loss "), 0u) << next;
  EXPECT_EQ(browser.console(), json::array());
}

// Counts the page's objects after some more answers of the controller and some new graphs.
constexpr const char* kUpdates = R"js(
const [updates, graphs] = [%, %];
return (async () => {
  const last = gangwayLive.polls + updates;
  while (gangwayLive.polls < last) {
    if (gangwayLive.polls % Math.ceil(updates / graphs) === 0) gangwayLive.drawn = { plan: -1 };
    gangwayLive.cluster.redraw();
    await gangwayLive.poll();
    await new Promise((done) => requestAnimationFrame(done));
  }
  return document.querySelectorAll('*').length;
})();
)js";

TEST_F(LivePageTest, DoesNotGrowWithTheUpdates) {
  Trainer first = trainer("first"), second = trainer("second");
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, "gangwayLive.drawn?.name === 'step'"));
  browser.devtools("Performance.enable", json::object());
  const auto update = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      first.train();
      second.train();
      for (const char* panel : {"Timeline", "Device", "Cluster"}) {
        browser.evaluate(cat("gangway.panels.choose('", panel, "')"));
        std::string script = kUpdates;
        for (const char* number : {"20", "2"}) script.replace(script.find('%'), 1, number);
        EXPECT_GT(browser.evaluate(script), 20);
      }
    }
    for (int i = 0; i < 3; ++i) browser.devtools("HeapProfiler.collectGarbage", json::object());
    json held = browser.devtools("Memory.getDOMCounters", json::object());
    const json metrics = browser.devtools("Performance.getMetrics", json::object());
    for (const json& metric : metrics["metrics"]) {
      if (metric["name"] == "JSHeapUsedSize") held["heap"] = metric["value"];
    }
    return held;
  };
  const json before = update(2), after = update(9);  // 120 updates, then 540 more.
  std::cout << "before " << before << ", after 540 updates more " << after << "\n";
  // The curves may have a few points more.
  for (const char* what : {"nodes", "jsEventListeners"}) {
    EXPECT_GT(before[what], 10) << what;
    EXPECT_LT(after[what], before[what].get<int>() * 1.15 + 50) << what;
  }
  // A browser keeps each script that ran: some 45 kB for each of 54 graphs.
  EXPECT_LT(after["heap"], before["heap"].get<double>() + 54 * 90e3);
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(LivePageTest, AGraphThatChangesKeepsTheSelectionAndTheView) {
  Trainer first = trainer("first");
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, "gangway.program.name === 'accumulate'"));
  browser.click("#expand");
  browser.evaluate("gangway.search.find('reduce'); gangway.search.choose(0);");
  const std::string selected = browser.evaluate("return gangway.view.selected.label");
  const json before = browser.evaluate("return [gangway.view.x, gangway.view.y]");
  // The same program, compiled again, replaces the old one.
  const json old = browser.evaluate("return gangwayLive.drawn.plan");
  first.step = first.slice.compile(accumulate(first.slice.mesh({{"data", 2}})), {.name = "step"});
  ASSERT_TRUE(comes(browser, cat("gangwayLive.drawn.plan !== ", old.dump())));
  ASSERT_TRUE(comes(browser,
                    "gangway.model.boxes.some((box) => box.kind === 'op' && "
                    "gangway.model.isVisible(box))"));
  EXPECT_EQ(browser.evaluate("return gangway.view.selected.label"), selected);
  EXPECT_EQ(browser.evaluate("return [gangway.view.x, gangway.view.y]"), before);
  EXPECT_EQ(browser.evaluate("return document.querySelectorAll('#tabs button').length"), 3);

  // Chooses another executable of the program by keyboard, and goes back by the table's button.
  const Executable other =
      first.slice.compile(doubled(first.slice.mesh({{"data", 2}})), {.name = "other"});
  ASSERT_TRUE(comes(browser, "document.querySelectorAll('#chooser option').length === 2"));
  browser.evaluate("document.getElementById('chooser').focus()");
  browser.press("\xee\x80\x95");  // The key Down.
  ASSERT_TRUE(comes(browser, "gangway.program.name === 'doubled'"));
  EXPECT_EQ(browser.evaluate("return gangway.program"),
            of_tool({"graph", "first", "--executable", "other", "--connect", address_, "--json"}));
  EXPECT_EQ(browser.evaluate("return document.activeElement.id"), "chooser");
  EXPECT_EQ(browser.console(), json::array());
}

// For each run and device: the names of its ops in their order, and the number of ops whose line is
// known.
constexpr const char* kRunsShown = R"js(
const { rows, spans } = gangwayLive.timeline.spans.timeline;
const runs = {};
for (const [row, , , name, run, place] of spans) {
  if (rows[row].kind !== 'device' || name === 'run' || run === 0) continue; // 0: first values.
  const key = `${run} on ${rows[row].name}`;
  runs[key] ??= { names: [], places: 0 };
  runs[key].names.push(name);
  runs[key].places += place === null ? 0 : 1;
}
return runs;
)js";

TEST_F(LivePageTest, TheTimelineOfTheLastRunsComesWhileItIsOpen) {
  Trainer first = trainer("first"), second = trainer("second");
  for (int i = 0; i < 3; ++i) first.train();
  second.train();
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, "gangwayLive.drawn?.name === 'step'"));
  EXPECT_EQ(browser.evaluate("return gangwayLive.timeline.taken"), 0) << "nobody looks yet";
  browser.evaluate(
      "[...document.querySelectorAll('#tabs button')]"
      ".find((tab) => tab.textContent === 'Timeline').click();");
  ASSERT_TRUE(comes(browser, "gangwayLive.timeline.taken > 0"));
  // The page shows the other program's runs too. It does not take them for runs of this program,
  // which has the same ops.
  const json runs = browser.evaluate(kRunsShown);
  std::map<size_t, int> devices_of_runs;  // Key: number of ops whose lines are known.
  for (const auto& [run, ops] : runs.items()) {
    EXPECT_EQ(ops["names"], runs.begin().value()["names"]) << run;
    EXPECT_GT(ops["names"].size(), 0u) << run;
    ++devices_of_runs[ops["places"]];
  }
  const size_t ops = runs.begin().value()["names"].size();
  EXPECT_EQ(devices_of_runs, (std::map<size_t, int>{{0, 2}, {ops, 3 * 2}})) << runs;
  EXPECT_TRUE(comes(browser, cat(kPanelText, ".includes('% busy')")));

  // Another run appears without a reload, and colours the graph.
  browser.evaluate("window.mark = 'not loaded again'");
  first.train();
  ASSERT_TRUE(eventually([&] { return browser.evaluate(kRunsShown).size() == 10; }));
  browser.evaluate(
      "const overlay = document.getElementById('overlay'); overlay.value = 'Time in the timeline';"
      "overlay.dispatchEvent(new Event('change'))");
  EXPECT_EQ(browser.evaluate("return gangway.view.overlay.title"),
            "time of all devices in the timeline");
  // A user who has zoomed in is not disturbed until the button is pressed.
  browser.evaluate("document.querySelector('.timeline canvas').focus()");
  browser.press("+");
  EXPECT_EQ(browser.evaluate("return document.getElementById('hold').ariaPressed"), "true");
  const json taken = browser.evaluate("return gangwayLive.timeline.taken");
  first.train();
  const json polls = browser.evaluate("return gangwayLive.polls");
  ASSERT_TRUE(comes(browser, cat("gangwayLive.polls > ", polls.get<int>() + 3)));
  EXPECT_EQ(browser.evaluate("return gangwayLive.timeline.taken"), taken);
  browser.click("#hold");
  EXPECT_TRUE(eventually([&] { return browser.evaluate(kRunsShown).size() == 12; }));
  EXPECT_EQ(browser.evaluate("return window.mark"), "not loaded again");
  EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
  browser.screenshot("live_timeline");
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(LivePageTest, TheGraphOfATrainingProgramHasAllNodesOfItsJson) {
  const Client client = connect(address_, {.name = "deep"});
  ASSERT_TRUE(eventually([&] { return client.status().hosts.size() == 1; }));
  const Slice slice = client.allocate({.devices = 2});
  const Executable step = slice.compile(deep(40, 60), {.name = "step"});
  const HostTensor x = HostTensor::of<float>({8}, std::vector<float>(8, 1.0f));
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, "gangway.program.name === 'deep'"));
  browser.click("#expand");
  static_cast<void>(step.run({{"x", x}}));
  expect_nodes_of(browser, of_tool({"graph", "deep", "--connect", address_, "--json"}));
  static_cast<void>(step.run({{"x", x}}));
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(LivePageTest, AControllerThatGoesIsNoticedAndItsNextOneFound) {
  Trainer first = trainer("first");
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, "gangway.program.name === 'accumulate'"));
  EXPECT_EQ(browser.evaluate("return document.getElementById('notice').hidden"), true);
  controller_.reset();
  ASSERT_TRUE(comes(browser,
                    "/^not connected since \\d\\d:\\d\\d:\\d\\d$/.test("
                    "document.getElementById('notice').innerText)"));
  EXPECT_EQ(browser.evaluate("return gangway.program.name"), "accumulate");
  const size_t at = page_.find("127.0.0.1");
  start_controller(page_.substr(at, page_.find('/', at) - at));
  EXPECT_TRUE(comes(browser, "document.getElementById('notice').hidden"));
  EXPECT_TRUE(comes(browser, cat(kPanelText, ".includes('no host has come yet')")));
  // The controller's ids begin anew, for other resources.
  executor_.emplace(ChildOptions{.arguments = {tests::gangway_tool(), "executor", "--connect",
                                               address_, "--memory", "67108864"},
                                 .output_file = executor_said_.path()});
  const Client client = connect(address_, {.name = "next"});
  ASSERT_TRUE(eventually([&] { return client.status().hosts.size() == 1; }));
  const Slice slice = client.allocate({.devices = 1});
  const Executable step = slice.compile(doubled(slice.mesh({{"data", 1}})), {.name = "step"});
  EXPECT_TRUE(comes(browser, "gangway.program.name === 'doubled'"));
  EXPECT_TRUE(comes(browser, "document.getElementById('chooser').innerText === 'next: step'"));
}

TEST_F(LivePageTest, HostileNamesAreText) {
  const std::string name = "</td><img src=x onerror='window.ran = 1'>\x01\xe2\x80\xae";
  Trainer first = trainer(name);
  first.train();
  Browser browser({});
  browser.go(page_);
  ASSERT_TRUE(comes(browser, "gangway.program.name === 'accumulate'"));
  ASSERT_TRUE(comes(browser, cat(kPanelText, ".includes('<img src=x')")));
  ASSERT_TRUE(comes(browser, "document.querySelectorAll('#panel .line').length > 2"));
  EXPECT_EQ(browser.evaluate("return document.images.length"), 0);
  EXPECT_EQ(browser.evaluate("return window.ran ?? 0"), 0);
  EXPECT_EQ(browser.evaluate("return /[\\u0001\\u202e]/.test(document.body.innerText)"), false);
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(LivePageTest, AnAddressWithoutTheTokenShowsNothing) {
  Browser browser({});
  browser.go(page_.substr(0, page_.find('?')));
  const std::string text = browser.evaluate("return document.documentElement.innerText");
  EXPECT_EQ(text, "page: expected the whole address that the controller printed\n");
  EXPECT_EQ(browser.evaluate("return document.scripts.length"), 0);
}

// Text of the panel and of the header with too little contrast; parts that are too wide.
constexpr const char* kPanelFaults = R"js(
const channels = (colour) => {
  const all = colour.match(/[\d.]+/g).map(Number);
  return all.length > 3 && all[3] !== 1 ? null : all.slice(0, 3);
};
const luminance = (colour) => {
  const [r, g, b] = colour.map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const wrong = [];
let looked = 0;
for (const part of document.querySelectorAll('#panel *, #chooser, #notice')) {
  const own = [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || part.disabled) continue;
  looked += 1;
  let behind = null;
  for (let at = part; at && !behind; at = at.parentElement) {
    behind = channels(getComputedStyle(at).backgroundColor);
  }
  const style = getComputedStyle(part);
  const ink = channels(part.namespaceURI.includes('svg') ? style.fill : style.color);
  const [low, high] = [luminance(ink), luminance(behind)].sort((a, b) => a - b);
  if ((high + 0.05) / (low + 0.05) < 4.5) wrong.push(`faint: ${part.textContent}`);
}
for (const part of document.querySelectorAll('#panel, #panel div, #panel section, #panel figure')) {
  if (part.scrollWidth > part.clientWidth + 1) wrong.push(`wide: ${part.className || part.id}`);
}
for (const svg of document.querySelectorAll('#panel .series > svg')) {
  const texts = [...svg.querySelectorAll('text')].map((text) => text.getBoundingClientRect());
  const room = svg.getBoundingClientRect();
  texts.forEach((a, i) => {
    if (a.left < room.left - 1 || a.right > room.right + 1) wrong.push('a label leaves its chart');
    for (const b of texts.slice(i + 1)) {
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
        wrong.push('labels of a chart meet');
      }
    }
  });
}
return looked > 20 ? wrong.slice(0, 10) : ['nothing to look at'];
)js";

TEST_F(LivePageTest, IsReadableAtBothSizesInLightAndDark) {
  Trainer first = trainer("first of two programs, whose name is longer than most are");
  Trainer second = trainer("second");
  for (int i = 0; i < 5; ++i) {
    first.train();
    second.train();
  }
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    browser.go(page_);
    ASSERT_TRUE(comes(browser, "gangway.program.name === 'accumulate'"));
    browser.evaluate("gangway.setAll(true)");
    ASSERT_TRUE(comes(browser, "document.querySelectorAll('#panel .line').length >= 8"));
    for (const char* theme : {"light", "dark"}) {
      SCOPED_TRACE(cat(size.width, " ", theme));
      if (browser.evaluate("return document.documentElement.dataset.theme") != theme)
        browser.click("#theme");
      EXPECT_EQ(browser.evaluate("return innerWidth"), size.width);
      EXPECT_EQ(browser.evaluate(kPanelFaults), json::array());
      EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
      EXPECT_EQ(browser.evaluate(kFaint), json::array());
      browser.screenshot(cat("live_", size.width, "_", theme));
    }
    EXPECT_LE(browser.evaluate("return document.querySelectorAll('*').length"), 3000);
    EXPECT_EQ(browser.console(), json::array());
  }
}

// A cluster of 1,000 hosts and 300 programs, each with a curve, as the controller would report it.
// Does nothing while the page waits for the controller's own answer, which would replace the
// cluster.
constexpr const char* kCrowd = R"js(
if (gangwayLive.polling) return null;
gangwayLive.poll = () => {};
const hosts = [], programs = [], held = [], history = [];
for (let i = 0; i < 1000; ++i) {
  hosts.push({ host: `host-${i}`, island: `island-${i % 10}`, kind: 'cpu', devices: 256,
    memory_bytes: 2 ** 36, memory_used: 2 ** 35, suspect_ms: i % 2 ? 0 : 2500, stuck: '' });
  for (let device = 0; device < 256; device += 8) {
    held.push({ host: `host-${i}`, device, id: device % 300 });
    held.push({ host: `host-${i}`, device, id: (device + 1) % 300 });
  }
}
for (let id = 0; id < 300; ++id) {
  const program = `program ${id} ${'w'.repeat(id % 200)}`;
  programs.push({ id, program, owner: 'somebody-with-a-long-name', step: id, loss: null,
    tokens_per_s: 1e6, used: 0.5, memory_bytes: 2 ** 40, devices: 8, runs_done: 1e9,
    runs_in_flight: 3, runs_waiting: 4, waits_for: 'x'.repeat(300) });
  history.push({ id, program, owner: 'a', ended: false, points: [...Array(512).keys()].map(
    (at) => [at, 1.7e12 + 1000 * at, at, Math.sin(at / 9 + id) - 1e5, 1e5 * at, 0.003]) });
}
gangwayLive.cluster.setNow({ hosts, programs, held });
gangwayLive.cluster.addHistory({ programs: history });
const before = performance.now();
gangwayLive.redraw();
document.getElementById('panel').getBoundingClientRect();
return { ms: performance.now() - before,
  elements: document.querySelectorAll('#panel *').length };
)js";

TEST_F(LivePageTest, ManyHostsAndProgramsAreFewElements) {
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    browser.go(page_);
    ASSERT_TRUE(comes(browser, cat(kPanelText, ".includes('host-a')")));
    json crowd;
    ASSERT_TRUE(eventually([&] { return !(crowd = browser.evaluate(kCrowd)).is_null(); }));
    // In addition to a full view (2,400), the header and the details.
    EXPECT_LE(crowd["elements"], 400);
    EXPECT_GT(crowd["elements"], 250);
    std::cout << size.width << ": " << crowd["elements"] << " elements in " << crowd["ms"]
              << " ms\n";
    EXPECT_EQ(browser.evaluate(kPanelFaults), json::array());
    EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
    // The keyboard shows the next hosts. The focus stays on the button, which was drawn anew.
    browser.evaluate("document.querySelector('#panel .pages button:not(:disabled)').focus()");
    browser.press("\xee\x80\x87");
    const std::string text = browser.evaluate(cat("return ", kPanelText));
    EXPECT_NE(text.find("7-12 of 1000"), text.npos) << text;
    EXPECT_EQ(browser.evaluate("return document.activeElement.dataset.key"), "hosts next");
    browser.screenshot(cat("live_crowd_", size.width));
    EXPECT_EQ(browser.console(), json::array());
  }
}

}  // namespace
}  // namespace gangway
