#include "tests/browser/browser.h"

#include <kj/encoding.h>
#include <signal.h>

#include <fstream>

#include "runtime/base/cat.h"
#include "runtime/base/error.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using nlohmann::json;

constexpr auto kPatience = 60 * kj::SECONDS;

// The port in the line "ChromeDriver was started successfully on port 12345."; 0 until the line is
// there.
unsigned port_in(const std::string& text) {
  static const std::string said = "started successfully on port ";
  const size_t at = text.find(said);
  if (at == text.npos || text.find('.', at) == text.npos) return 0;
  return static_cast<unsigned>(std::stoul(text.substr(at + said.size())));
}

}  // namespace

Browser::Browser(WindowSize size)
    : driver_({.arguments = {tests::cmake_variable("CHROMEDRIVER"), "--port=0"},
               .output_file = log_.path()}) {
  unsigned port = 0;
  if (!eventually([&] { return (port = port_in(log_.text())) != 0; }))
    throw Error(ErrorKind::kUnavailable, cat("chromedriver: says no port: got ", log_.text()));
  address_ =
      io_.provider->getNetwork().parseAddress(kj::str("127.0.0.1:", port)).wait(io_.waitScope);
  http_ = kj::newHttpClient(io_.provider->getTimer(), headers_, *address_);
  start_session(size);
}

void Browser::start_session(WindowSize size) {
  const json arguments = {"--headless=new",
                          "--no-sandbox",
                          "--disable-gpu",
                          "--disable-dev-shm-usage",
                          "--hide-scrollbars",
                          cat("--window-size=", size.width, ",", size.height),
                          cat("--user-data-dir=", folder_.path().string())};
  const json wanted = {
      {"browserName", "chrome"},
      {"goog:chromeOptions", {{"binary", tests::cmake_variable("CHROMIUM")}, {"args", arguments}}},
      {"goog:loggingPrefs", {{"browser", "ALL"}}}};
  const json made =
      ask(kj::HttpMethod::POST, "/session", {{"capabilities", {{"alwaysMatch", wanted}}}});
  session_ = cat("/session/", made.at("sessionId").get<std::string>());
  browser_pid_ = made.at("capabilities").at("goog:processID").get<pid_t>();
  // The page itself has that size, whatever the window's frame takes.
  devtools("Emulation.setDeviceMetricsOverride", {{"width", size.width},
                                                  {"height", size.height},
                                                  {"deviceScaleFactor", 1},
                                                  {"mobile", false}});
}

Browser::~Browser() {
  try {
    if (!session_.empty()) ask(kj::HttpMethod::DELETE, session_, nullptr);
  } catch (const std::exception&) {
    // The test has reported the error already; the process is ended below.
  } catch (const kj::Exception&) {
  }
  if (browser_pid_ && !eventually([&] { return is_gone(*browser_pid_); }))
    kill(*browser_pid_, SIGKILL);
}

json Browser::ask(kj::HttpMethod method, const std::string& path, const json& body) {
  const std::string text = body.is_null() ? "" : body.dump();
  kj::HttpHeaders headers(headers_);
  headers.set(kj::HttpHeaderId::HOST, "localhost");
  headers.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
  auto request = http_->request(method, path.c_str(), headers, text.size());
  auto written = text.empty() ? kj::Promise<void>(kj::READY_NOW)
                              : request.body->write(text.data(), text.size());
  auto answer = written
                    .then([&] {
                      request.body = nullptr;
                      return kj::mv(request.response);
                    })
                    .then([](kj::HttpClient::Response&& response) {
                      auto all = response.body->readAllText();
                      return all.attach(kj::mv(response.body));
                    });
  const kj::String said =
      io_.provider->getTimer().timeoutAfter(kPatience, kj::mv(answer)).wait(io_.waitScope);
  json value = json::parse(said.begin(), said.end()).at("value");
  if (value.is_object() && value.contains("error"))
    throw Error(ErrorKind::kInvalid, cat("browser: ", path, ": ", value.dump()));
  return value;
}

void Browser::open(const std::string& file) { go("file://" + file); }

void Browser::go(const std::string& address) {
  ask(kj::HttpMethod::POST, session_ + "/url", {{"url", address}});
}

json Browser::evaluate(const std::string& body) {
  return ask(kj::HttpMethod::POST, session_ + "/execute/sync",
             {{"script", body}, {"args", json::array()}});
}

void Browser::press(const std::string& keys) {
  json actions = json::array();
  for (size_t at = 0; at < keys.size();) {
    const auto first = static_cast<unsigned char>(keys[at]);
    const size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const std::string key = keys.substr(at, length);
    actions.push_back({{"type", "keyDown"}, {"value", key}});
    actions.push_back({{"type", "keyUp"}, {"value", key}});
    at += length;
  }
  ask(kj::HttpMethod::POST, session_ + "/actions",
      {{"actions", {{{"type", "key"}, {"id", "keys"}, {"actions", actions}}}}});
}

void Browser::click(const std::string& selector) {
  const json found = ask(kj::HttpMethod::POST, session_ + "/element",
                         {{"using", "css selector"}, {"value", selector}});
  ask(kj::HttpMethod::POST,
      cat(session_, "/element/", found.begin().value().get<std::string>(), "/click"),
      json::object());
}

void Browser::point(int x, int y) {
  const json move = {{"type", "pointerMove"}, {"duration", 0}, {"x", x}, {"y", y}};
  ask(kj::HttpMethod::POST, session_ + "/actions",
      {{"actions", {{{"type", "pointer"}, {"id", "pointer"}, {"actions", {move}}}}}});
}

json Browser::devtools(const std::string& command, const json& parameters) {
  return ask(kj::HttpMethod::POST, session_ + "/goog/cdp/execute",
             {{"cmd", command}, {"params", parameters}});
}

json Browser::console() {
  return ask(kj::HttpMethod::POST, session_ + "/se/log", {{"type", "browser"}});
}

void Browser::screenshot(const std::string& name) {
  const std::string picture = ask(kj::HttpMethod::GET, session_ + "/screenshot", nullptr);
  const auto bytes = kj::decodeBase64(kj::ArrayPtr<const char>(picture.data(), picture.size()));
  std::ofstream(cat(tests::build_folder(), "/screenshots/", name, ".png"), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.begin()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace gangway
