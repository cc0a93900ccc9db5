#include "tools/page/layout_document.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "ir/explain/conversion_text.h"
#include "ir/graph/bodies.h"
#include "ir/plan/rates.h"
#include "ir/transforms/propagation/placed_functions.h"
#include "runtime/base/cat.h"

namespace gangway::tool {
namespace {

using Json = nlohmann::ordered_json;

// Describes one function of the user's, or a body in it, after compilation.
class FunctionLayout {
 public:
  FunctionLayout(const ExplainedProgram& explained, const CompileRecord& record,
                 const Function& before, const SimplifiedValues& kept)
      : explained_(explained),
        record_(record),
        kept_(kept),
        now_(kept.now == nullptr ? record.function : *kept.now),
        placed_(*placed_functions(record.function, record.propagation).at(&now_)) {
    for (NodeId id = 0; id < before.nodes.size(); ++id) {
      const Node& node = before.nodes[id];
      if (node.results > 0 && kept.values[node.first_result] != kNone)
        readers_[kept.values[node.first_result]].push_back(id);
    }
    for (const ConversionRecord& one : record.conversions) {
      if (one.in == kept.now) moves_[one.value].push_back(&one);
    }
  }

  // One entry for each value of the user's function; null: the value is gone.
  Json values() const {
    Json all = Json::array();
    for (const ValueId value : kept_.values) all.push_back(value == kNone ? Json() : of(value));
    return all;
  }

 private:
  Json of(ValueId value) const {
    Json json = {{"sharding", Json::array()}};
    for (const Placement& placement : placed_.shardings[value])
      json["sharding"].push_back(to_string(placement));
    if (const auto found = moves_.find(value); found != moves_.end()) {
      for (const ConversionRecord* one : found->second) json["moves"].push_back(move(*one));
    }
    if (kept_.values.size() <= kReasonsMax)
      json["why"] = why(explained_, cat("@", now_.name, ".%", value));
    return json;
  }

  Json move(const ConversionRecord& one) const {
    Json collectives = Json::array();
    int64_t sent = 0;
    for (const ConversionStep& step : one.steps) {
      sent += step.bytes;
      if (step.bytes > 0) collectives.push_back(to_string(step.op));
    }
    Json readers = Json::array();
    if (one.reader != kNone && now_.nodes[one.reader].results > 0) {
      const auto found = readers_.find(now_.nodes[one.reader].first_result);
      if (found != readers_.end()) readers = found->second;
    }
    return {{"readers", readers},
            {"of_result", one.reader == kNone},
            {"collectives", collectives},
            {"sent_bytes", sent},
            {"text", conversion_text(record_, one, "")}};
  }

  const ExplainedProgram& explained_;
  const CompileRecord& record_;
  const SimplifiedValues& kept_;
  const Function& now_;
  const FunctionShardings& placed_;
  // Nodes before simplification, by their first result after it.
  std::map<ValueId, std::vector<NodeId>> readers_;
  std::map<ValueId, std::vector<const ConversionRecord*>> moves_;
};

Json rates() {
  const DeviceRates& rates = rates_of("cpu");
  return {{"flops_per_s", rates.flops_per_s},
          {"memory_bytes_per_s", rates.memory_bytes_per_s},
          {"launch_ns", rates.launch_ns}};
}

}  // namespace

std::string layout_document(const ExplainedProgram& explained) {
  const Program& program = explained.program;
  BodyTable bodies;
  for (const auto& function : program.functions) bodies.add(*function);
  Json functions = Json::object(), of_bodies = Json::object();
  for (const auto& [call, record] : explained.calls) {
    const uint32_t number = program.nodes[call].function;
    for (const auto& [before, kept] : record.simplified) {
      const bool is_body = before != nullptr;
      Json& all = is_body ? of_bodies : functions;
      const std::string key = std::to_string(is_body ? bodies.at(before) : number);
      if (all.contains(key)) continue;
      const Function& function = is_body ? *before : *program.functions[number];
      all[key] = FunctionLayout(explained, record, function, kept).values();
    }
  }
  const Json json = {
      {"rates", rates()}, {"functions", std::move(functions)}, {"bodies", std::move(of_bodies)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gangway::tool
