#include "runtime/observe/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/printable.h"

namespace gangway {
namespace {

constexpr const char* kNames[] = {"trace", "debug", "info", "warn", "error", "off"};

LogLevel parse_level(const std::string& name, const std::string& all) {
  for (int i = 0; i <= static_cast<int>(LogLevel::kOff); ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  throw Error(ErrorKind::kInvalid,
              cat("log level \"", name, "\" in \"", all,
                  "\" does not exist: expected trace, debug, info, warn, error or off"),
              {}, "for example: --log-level=warn,controller=debug");
}

std::shared_ptr<spdlog::sinks::sink> make_sink(const std::string& file) {
  if (file.empty()) return std::make_shared<spdlog::sinks::stderr_sink_mt>();
  try {
    return std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(ErrorKind::kUnavailable, cat("log file: ", error.what()));
  }
}

}  // namespace

void Logger::write(LogLevel level, std::string_view message, Fields fields) const {
  const char* name = kNames[static_cast<int>(level)];
  std::string line;
  if (json_) {
    nlohmann::ordered_json json = {{"level", name}, {"module", module_}, {"msg", message}};
    for (const LogField& field : fields) json[field.key] = field.value;
    line = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    line[0] = ',';  // The sink writes the brace, and the time, before it.
  } else {
    line = cat(name, std::string(6 - std::string_view(name).size(), ' '), module_, ": ",
               printable_lines(message));
    const char* gap = "  ";
    for (const LogField& field : fields) {
      // printable() keeps this on one line: a name that a user chose must not add lines to the log.
      line += cat(gap, field.key, "=", printable(field.value));
      gap = " ";
    }
  }
  sink_->log(spdlog::level::critical, spdlog::string_view_t(line.data(), line.size()));
}

Logs::Logs(LogOptions options) : format_(options.format) {
  std::string levels = options.levels;
  if (levels.empty()) levels = environment_value("GANGWAY_LOG").value_or("warn");
  rules_.push_back({"", LogLevel::kWarn});
  for (size_t at = 0; at <= levels.size();) {
    const size_t end = std::min(levels.find(',', at), levels.size());
    const std::string rule = levels.substr(at, end - at);
    const size_t equals = rule.find('=');
    if (equals == std::string::npos) {
      rules_.front().level = parse_level(rule, levels);
    } else {
      rules_.push_back({rule.substr(0, equals), parse_level(rule.substr(equals + 1), levels)});
    }
    at = end + 1;
  }
  sink_ = std::make_shared<spdlog::logger>("gangway", make_sink(options.file));
  sink_->set_level(spdlog::level::trace);
  sink_->flush_on(spdlog::level::trace);
  const bool json = format_ == LogFormat::kJson;
  sink_->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      json ? "{\"ts\":\"%Y-%m-%dT%H:%M:%S.%fZ\"%v" : "%H:%M:%S.%f %v",
      json ? spdlog::pattern_time_type::utc : spdlog::pattern_time_type::local));
}

Logger Logs::module(std::string name) const {
  Logger logger;
  logger.level_ = rules_.front().level;
  for (const Rule& rule : rules_) {
    if (rule.module == name) logger.level_ = rule.level;
  }
  logger.json_ = format_ == LogFormat::kJson;
  logger.module_ = std::move(name);
  logger.sink_ = sink_;
  return logger;
}

}  // namespace gangway
