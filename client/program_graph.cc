#include "client/program_graph.h"

#include "client/client_impl.h"
#include "client/connection.h"
#include "ir/plan/plan_text.h"
#include "ir/plan/plan_wire.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

using GraphResults = wire::Controller::GraphResults;

struct Asked {
  std::string name, executable = {};
  PlanId plan = {};
  std::string why = {};
};

capnp::Response<GraphResults> ask(internal::ControllerConnection& connection, const Asked& what) {
  return connection.ask_controller<GraphResults>([&](auto& controller) {
    auto request = controller.graphRequest();
    write(request.initVersion(), Version{});
    request.setName(what.name);
    request.setExecutable(what.executable);
    request.setPlan(what.plan.value);
    request.setWhy(what.why);
    return request.send();
  });
}

std::vector<std::byte> bytes_of(capnp::Data::Reader from) {
  const auto* const begin = reinterpret_cast<const std::byte*>(from.begin());
  return {begin, begin + from.size()};
}

ProgramGraph read(GraphResults::Reader from) {
  ProgramGraph graph{.program = program_from_wire(bytes_of(from.getProgram())),
                     .plan = plan_from_wire(bytes_of(from.getPlan())),
                     .kinds = {},
                     .placed = {}};
  for (auto kind : from.getKinds()) graph.kinds.emplace_back(kind.cStr());
  for (auto placed : from.getPlaced()) graph.placed.emplace_back(placed.cStr());
  return graph;
}

Asked about(const internal::ExecutableImpl& executable) {
  return {.name = executable.client->name(), .plan = executable.plan.plan};
}

}  // namespace

ProgramGraph Client::graph(const std::string& name, const std::string& executable) const {
  return impl_->call("graph", [&, client = impl_.get()] {
    return read(ask(client->session().connection(), {.name = name, .executable = executable}));
  });
}

std::string Executable::explain(const std::string& what) const {
  GW_REQUIRE(!what.empty(), "why: of nothing: expected a node's name, a value or a line");
  Asked asked = about(*impl_);
  asked.why = what;
  return impl_->client->call("explain", [&, client = impl_->client.get()] {
    return std::string(ask(client->session().connection(), asked).getText().cStr());
  });
}

std::string Executable::plan_text() const {
  const Asked asked = about(*impl_);
  return impl_->client->call("plan text", [&, client = impl_->client.get()] {
    return to_text(read(ask(client->session().connection(), asked)).plan);
  });
}

}  // namespace gangway
