// A client sends a controller every possible message about another owner's resources.
//
// The tables have a row for each method that a connection reaches and for each kind of frame. The
// test fails if a new method of the schema has no row.
#include <capnp/schema.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "gangway.h"
#include "ir/wire/wire.h"
#include "protocol/checkpoint_wire.h"
#include "protocol/frames.capnp.h"
#include "protocol/segment_wire.h"
#include "runtime/fibers/await.h"
#include "tests/attacks/attacker.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::Not;

// Expected answer. The answer about another owner's resources must be the answer about resources
// that never existed.
enum class Says : uint8_t {
  kRefusal,   // Both answers are refusals.
  kOperator,  // Only the controller's user may do it.
  kOwn        // The answer is about the caller's own resources: the method names no others.
};

struct Row {
  Says says;
  std::function<std::string(Attacker&, const Names&)> attack;
};

template <class Results, class Request>
std::string sent(Request request) {
  return await<capnp::Response<Results>>(request.send()).toString().flatten().cStr();
}

template <class Request>
Request of_this_version(Request request) {
  write(request.initVersion(), Version{});
  return request;
}

// The outcomes of all calls. Throws if all were refused.
std::string all_said(const std::vector<std::function<std::string()>>& calls) {
  std::string all;
  for (const auto& call : calls) all += cat(outcome_of(call), "\n");
  if (all.find("done: ") == std::string::npos) throw Error(ErrorKind::kInvalid, all);
  return all;
}

std::string both_names(const Names& names, const std::function<std::string(std::string)>& call) {
  return all_said({[&] { return call(names.program); },
                   [&] { return call(names.owner + "/" + names.program); }});
}

using Table = std::map<std::string, Row>;

Table controller_rows() {
  using C = wire::Controller;
  Table rows;
  rows["Controller.registerExecutor"] = {
      Says::kOperator, [](Attacker& eve, const Names& names) {
        auto request = of_this_version(eve.controller().registerExecutorRequest());
        write(request.initMachine(), this_machine());
        request.initDescription().setName(names.host);
        return sent<C::RegisterExecutorResults>(kj::mv(request));
      }};
  // The method needs a registration, which no other peer gets.
  rows["Registration.leave"] = rows["Controller.registerExecutor"];
  rows["Controller.connect"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                                  return both_names(names, [&](const std::string& name) {
                                    auto request =
                                        of_this_version(eve.controller().connectRequest());
                                    write(request.initMachine(), this_machine());
                                    request.setName(name);
                                    request.setAttach(true);
                                    return sent<C::ConnectResults>(kj::mv(request));
                                  });
                                }};
  rows["Controller.status"] = {
      Says::kOwn, [](Attacker& eve, const Names&) {
        return sent<C::StatusResults>(of_this_version(eve.controller().statusRequest()));
      }};
  rows["Controller.attach"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                                 auto request = of_this_version(eve.controller().attachRequest());
                                 request.setId(names.session);
                                 request.setKey(names.session);
                                 return sent<C::AttachResults>(kj::mv(request));
                               }};
  rows["Controller.drain"] = {Says::kOperator, [](Attacker& eve, const Names& names) {
                                auto request = of_this_version(eve.controller().drainRequest());
                                request.setHost(names.host);
                                return sent<C::DrainResults>(kj::mv(request));
                              }};
  rows["Controller.forget"] = {Says::kOperator, [](Attacker& eve, const Names& names) {
                                 auto request = of_this_version(eve.controller().forgetRequest());
                                 request.setHost(names.host);
                                 return sent<C::ForgetResults>(kj::mv(request));
                               }};
  return rows;
}

void add_rows_of_programs(Table& rows) {
  using C = wire::Controller;
  rows["Controller.stop"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                               return both_names(names, [&](const std::string& name) {
                                 auto request = of_this_version(eve.controller().stopRequest());
                                 request.setName(name);
                                 return sent<C::StopResults>(kj::mv(request));
                               });
                             }};
  const auto suspend = [](Attacker& eve, const Names& names, bool undo) {
    return both_names(names, [&](const std::string& name) {
      auto request = of_this_version(eve.controller().suspendRequest());
      request.setName(name);
      request.setUndo(undo);
      return sent<C::SuspendResults>(kj::mv(request));
    });
  };
  rows["Controller.suspend"] = {Says::kRefusal, [=](Attacker& eve, const Names& names) {
                                  return all_said({[&] { return suspend(eve, names, false); },
                                                   [&] { return suspend(eve, names, true); }});
                                }};
  const auto logs = [](Attacker& eve, const Names& names, uint64_t program) {
    return both_names(names, [&](const std::string& name) {
      auto request = of_this_version(eve.controller().logsRequest());
      request.setName(name);
      request.setProgram(program);
      return sent<C::LogsResults>(kj::mv(request));
    });
  };
  rows["Controller.graph"] = {Says::kRefusal, [=](Attacker& eve, const Names& names) {
                                return both_names(names, [&](const std::string& name) {
                                  auto request = of_this_version(eve.controller().graphRequest());
                                  request.setName(name);
                                  request.setPlan(names.plan);
                                  request.setWhy("main");
                                  return sent<C::GraphResults>(kj::mv(request));
                                });
                              }};
  rows["Controller.logs"] = {Says::kRefusal, [=](Attacker& eve, const Names& names) {
                               return all_said({[&] { return logs(eve, names, 0); },
                                                [&] { return logs(eve, names, names.session); }});
                             }};
}

void add_rows_of_slices(Table& rows) {
  using S = wire::Session;
  rows["Session.allocate"] = {Says::kOwn, [](Attacker& eve, const Names&) {
                                auto request = eve.session().allocateRequest();
                                request.setDevices(1);
                                request.setCall(eve.new_call());
                                return sent<S::AllocateResults>(kj::mv(request));
                              }};
  rows["Session.compile"] = {
      Says::kRefusal, [](Attacker& eve, const Names& names) {
        auto request = eve.session().compileRequest();
        const std::vector<std::byte> program = to_wire(small_program("eves"));
        request.setProgram(
            kj::arrayPtr(reinterpret_cast<const kj::byte*>(program.data()), program.size()));
        request.initSlices(1).set(0, names.slice);
        request.setRunsInFlightMax(2);
        request.setCall(eve.new_call());
        return sent<S::Compiled>(kj::mv(request));
      }};
  rows["Session.allowRead"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                                 auto request = eve.session().allowReadRequest();
                                 request.setSlice(names.slice);
                                 request.setOwner(Attacker::kOwner);
                                 return sent<S::AllowReadResults>(kj::mv(request));
                               }};
  rows["Session.openStates"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                                  return both_names(names, [&](const std::string& name) {
                                    auto request = eve.session().openStatesRequest();
                                    request.setProgram(name);
                                    return sent<S::OpenStatesResults>(kj::mv(request));
                                  });
                                }};
  rows["Session.readStates"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                                  auto request = eve.session().readStatesRequest();
                                  request.setStates(names.slice);
                                  request.setLatest(true);
                                  auto part = request.initParts(1)[0];
                                  part.setName("w");
                                  part.setBytes(16);
                                  request.setCall(eve.new_call());
                                  return sent<S::ReadStatesResults>(kj::mv(request));
                                }};
  rows["Session.keepCheckpoints"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                                       auto request = eve.session().keepCheckpointsRequest();
                                       request.setSlice(names.slice);
                                       request.setEvery(1);
                                       request.setKeep(1);
                                       return sent<S::KeepCheckpointsResults>(kj::mv(request));
                                     }};
}

void add_rows_of_plans(Table& rows) {
  using S = wire::Session;
  rows["Session.repeat"] = {Says::kRefusal, [](Attacker& eve, const Names& names) {
                              auto request = eve.session().repeatRequest();
                              request.setPlan(names.plan);
                              request.setSteps(1);
                              request.setFirstName(eve.new_name());
                              request.setNumber(eve.new_call());
                              return sent<S::RepeatResults>(kj::mv(request));
                            }};
  const auto repetition = [](Attacker& eve, const Names& names, bool cancel) {
    auto request = eve.session().repetitionRequest();
    request.setPlan(names.plan);
    request.setCancel(cancel);
    request.setWait(true);
    return sent<S::RepetitionResults>(kj::mv(request));
  };
  rows["Session.repetition"] = {Says::kRefusal, [=](Attacker& eve, const Names& names) {
                                  return all_said({[&] { return repetition(eve, names, false); },
                                                   [&] { return repetition(eve, names, true); }});
                                }};
}

void add_rows_of_own(Table& rows) {
  using S = wire::Session;
  rows["Session.setShare"] = {Says::kOwn, [](Attacker& eve, const Names&) {
                                auto request = eve.session().setShareRequest();
                                request.initShare().setWeight(1);
                                return sent<S::SetShareResults>(kj::mv(request));
                              }};
  rows["Session.report"] = {Says::kOwn, [](Attacker& eve, const Names& names) {
                              auto request = eve.session().reportRequest();
                              request.initNumbers(1)[0].setName(names.program);
                              return sent<S::ReportResults>(kj::mv(request));
                            }};
  rows["Session.holdings"] = {Says::kOwn, [](Attacker& eve, const Names&) {
                                return sent<S::HoldingsResults>(eve.session().holdingsRequest());
                              }};
  rows["Session.log"] = {Says::kOwn, [](Attacker& eve, const Names&) {
                           auto request = eve.session().logRequest();
                           request.initLines(1).set(0, "hello");
                           return sent<S::LogResults>(kj::mv(request));
                         }};
  // Both end the session; the next row gets a new one.
  rows["Session.close"] = {Says::kOwn, [](Attacker& eve, const Names&) {
                             return sent<S::CloseResults>(eve.session().closeRequest());
                           }};
  rows["Session.detach"] = {Says::kOwn, [](Attacker& eve, const Names&) {
                              std::string all =
                                  sent<S::DetachResults>(eve.session().detachRequest());
                              auto request = of_this_version(eve.controller().stopRequest());
                              request.setName(eve.own().program);
                              return all + sent<wire::Controller::StopResults>(kj::mv(request));
                            }};
}

Table all_rows() {
  Table rows = controller_rows();
  add_rows_of_programs(rows);
  add_rows_of_slices(rows);
  add_rows_of_plans(rows);
  add_rows_of_own(rows);
  return rows;
}

// The interfaces that are served over a connection: the first one, and those that its results, and
// theirs, hold.
using Interfaces = std::map<uint64_t, capnp::InterfaceSchema>;

void add_served(const capnp::StructSchema& results, std::set<uint64_t>& seen, Interfaces& served);

void add_served(const capnp::Type& type, std::set<uint64_t>& seen, Interfaces& served) {
  if (type.isList()) return add_served(type.asList().getElementType(), seen, served);
  if (type.isStruct()) return add_served(type.asStruct(), seen, served);
  if (!type.isInterface()) return;
  const capnp::InterfaceSchema interface = type.asInterface();
  if (!served.emplace(interface.getProto().getId(), interface).second) return;
  for (const auto method : interface.getMethods()) add_served(method.getResultType(), seen, served);
}

void add_served(const capnp::StructSchema& results, std::set<uint64_t>& seen, Interfaces& served) {
  if (!seen.insert(results.getProto().getId()).second) return;
  for (const auto field : results.getFields()) add_served(field.getType(), seen, served);
}

std::set<std::string> served_methods() {
  std::set<uint64_t> seen;
  Interfaces served;
  add_served(capnp::Type(capnp::Schema::from<wire::Controller>()), seen, served);
  std::set<std::string> names;
  for (const auto& [id, interface] : served) {
    for (const auto method : interface.getMethods())
      names.insert(
          cat(interface.getShortDisplayName().cStr(), ".", method.getProto().getName().cStr()));
  }
  return names;
}

std::set<std::string> keys_of(const auto& table) {
  std::set<std::string> keys;
  for (const auto& [key, row] : table) keys.insert(key);
  return keys;
}

using FrameRow = std::function<std::vector<Message>(Attacker&, const Names&)>;

// Frames that a client may send.
std::map<std::string, FrameRow> frame_rows() {
  std::map<std::string, FrameRow> rows;
  const auto run_of = [](Attacker& eve, uint64_t plan) {
    RunFrame frame{.plan = PlanId(plan), .run = RunId(eve.new_name())};
    frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(16)}};
    frame.outputs = {ArrayId(eve.new_name())};
    return frame;
  };
  rows["run"] = [=](Attacker& eve, const Names& names) -> std::vector<Message> {
    RunFrame argument = run_of(eve, eve.own().plan), output = argument;
    argument.arguments = {{.input = 0, .array = ArrayId(names.array)}};
    output.run = RunId(eve.new_name());
    output.outputs = {ArrayId(names.array)};
    return {run_of(eve, names.plan), argument, output};
  };
  rows["cancel"] = [](Attacker&, const Names& names) -> std::vector<Message> {
    return {CancelFrame{RunId(names.run), Error(ErrorKind::kCancelled, "stop")}};
  };
  rows["free"] = [](Attacker&, const Names& names) -> std::vector<Message> {
    return {FreeFrame{{ArrayId(names.array), ArrayId(names.array + 1)}}};
  };
  rows["release"] = [](Attacker&, const Names& names) -> std::vector<Message> {
    return {ReleaseFrame{{names.slice + 100, names.plan + 100}}};
  };
  rows["copy"] = [](Attacker& eve, const Names& names) -> std::vector<Message> {
    const auto copy = [&](HostTransferKind kind) {
      return HostTransferFrame{
          .request = eve.new_call(),
          .kind = kind,
          .at = {.segment = {.bytes = 16}, .bytes = 16},
          .array = ArrayId(kind == HostTransferKind::kPut ? eve.new_name() : names.array),
          .plan = PlanId(names.plan),
          .scope = {names.slice},
          .name = "w"};
    };
    HostTransferFrame over = copy(HostTransferKind::kPut);
    over.array = ArrayId(names.array);
    over.plan = PlanId(eve.own().plan);
    return {copy(HostTransferKind::kGet), copy(HostTransferKind::kPut), over,
            copy(HostTransferKind::kReadState), copy(HostTransferKind::kWriteState)};
  };
  return rows;
}

// Frames that a client must not send.
std::map<std::string, Message> foreign_frames(const Names& names) {
  const RunId run(names.run);
  return {{"uninstall", UninstallFrame{PlanId(names.plan)}},
          {"refused", UninstallFrame{PlanId(names.plan), true}},
          {"prepare", PrepareFrame{.run = {.plan = PlanId(names.plan), .run = run}}},
          {"grant", GrantFrame{{{.run = run, .count = 1, .ticket = Ticket(1)}}}},
          {"copyDone", HostTransferDoneFrame{.request = 1}},
          {"runDone", RunDoneFrame{.run = run}},
          {"progress", ProgressFrame{{{.run = run, .position_end = 1}}}},
          {"heartbeat", HeartbeatFrame{.runs_done = 1}},
          {"freeScope", FreeScopeFrame{{names.slice}}},
          {"warning", WarningFrame{"you are hacked"}},
          {"linkBroken", LinkBrokenFrame{PlanId(names.plan), 0, "you are hacked"}}};
}

// A program of bob's that goes on under attack.
class AttacksTest : public testing::Test {
 protected:
  static constexpr char kProgram[] = "diary";

  // Calls body(cluster, names of bob's resources, names of nothing). The body calls step() after
  // each attack, which runs a step of bob's program.
  void under_attack(
      const std::function<void(SimCluster&, const Names& bobs, const Names& nobodys)>& body) {
    reactor_->run([&] {
      SimCluster cluster(*reactor_);
      cluster.network.set_user("bob", "bob");
      cluster.network.set_user(Attacker::kOwner, Attacker::kOwner);
      const Client bob = cluster.connect("bob", {.name = kProgram});
      {
        const Slice slice = bob.allocate({.devices = 1});
        const Executable program = slice.compile(small_program("entries"), {.name = "entries"});
        const Array kept = program.run({{"x", HostTensor::of<float>({4}, {1, 1, 1, 1})}})["y"];
        const Names bobs = names_of(cluster, "bob");
        float expected = 1;
        step_ = [&] {
          const Array y = program.run({{"x", HostTensor::of<float>({4}, {1, 1, 1, 1})}})["y"];
          ++expected;
          EXPECT_THAT(y.to_host().as<float>(), testing::Each(expected));
        };
        body(cluster, bobs,
             {.owner = "bob",
              .program = "maths",
              .host = "host-9",
              .session = bobs.session + 500,
              .slice = bobs.slice + 500,
              .plan = bobs.plan + 500,
              .run = bobs.run + 500,
              .array = bobs.array + 500});
        step_();
        EXPECT_THAT(kept.to_host().as<float>(), testing::Each(1.0F));
        const ControllerCounts left = cluster.controller.controller().counts();
        EXPECT_EQ(left.hosts, 2u);
        EXPECT_EQ(left.clients + left.slices + left.plans, 3u) << "bob's";
        EXPECT_EQ(left.runs + left.transfers, 0u);
        EXPECT_LE(left.arrays, 2u);
        for (const HostStatus& host : bob.status().hosts) EXPECT_FALSE(host.is_draining);
      }
      bob.close();
    });
  }

  static Names names_of(SimCluster& cluster, const std::string& owner) {
    Controller& core = cluster.controller.controller();
    for (const ProgramCounts& program : core.program_counts()) {
      if (program.owner != owner) continue;
      const LiveProgram::Holdings held = core.programs().open(program.id).holdings();
      const uint64_t first = program.id.value << 40;
      return {.owner = owner,
              .program = program.name,
              .host = "host-0",
              .session = program.id.value,
              .slice = held.slices.at(0).value,
              .plan = held.executables.at(0).first.value,
              .run = first + 1,
              .array = first + 2};
    }
    throw Error(ErrorKind::kBug, "there is no program of that owner");
  }

  // Masks names that a peer chose itself, and numbers.
  static std::string masked(std::string text, const Names& names) {
    for (const std::string& name : {names.program, names.host}) {
      for (size_t at = text.find(name); at != std::string::npos; at = text.find(name))
        text.replace(at, name.size(), "<name>");
    }
    return std::regex_replace(text, std::regex("[0-9]+"), "#");
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = 5});
  std::function<void()> step_;
};

TEST_F(AttacksTest, EveryMethodThatAConnectionReachesHasARow) {
  EXPECT_EQ(keys_of(all_rows()), served_methods());
}

TEST_F(AttacksTest, AnswersAboutAnotherOwnersObjectsAreThoseAboutUnknownOnes) {
  const Table rows = all_rows();
  under_attack([&](SimCluster& cluster, const Names& bobs, const Names& nobodys) {
    for (const auto& [method, row] : rows) {
      SCOPED_TRACE(method);
      std::string said[2];
      for (const bool is_bobs : {true, false}) {
        const Names& names = is_bobs ? bobs : nobodys;
        Attacker eve(*reactor_, cluster);
        const std::string text = outcome_of([&] { return row.attack(eve, names); });
        said[is_bobs] = masked(text, names);
        EXPECT_EQ(text.find("done: ") == std::string::npos, row.says != Says::kOwn) << text;
        EXPECT_EQ(text.find("who runs the controller, got one of eve") != std::string::npos,
                  row.says == Says::kOperator)
            << text;
        EXPECT_TRUE(row.says != Says::kOwn || text.find(kProgram) == std::string::npos) << text;
        outcome_of([&] { return sent<wire::Session::CloseResults>(eve.session().closeRequest()); });
        step_();
      }
      EXPECT_TRUE(row.says == Says::kOwn || said[true] == said[false]) << said[true] << "\n"
                                                                       << said[false];
    }
  });
}

TEST_F(AttacksTest, EveryKindOfFrameHasARow) {
  std::set<std::string> rows = keys_of(frame_rows()), kinds;
  for (const auto& [kind, message] : foreign_frames({})) {
    EXPECT_TRUE(rows.insert(kind).second) << kind;
  }
  const capnp::StructSchema schema = capnp::Schema::from<wire::Frame>();
  for (const auto field : schema.getUnionFields()) kinds.insert(field.getProto().getName().cStr());
  EXPECT_EQ(rows, kinds);
}

TEST_F(AttacksTest, FramesAboutAnotherOwnersObjectsDoWhatThoseAboutUnknownOnesDo) {
  under_attack([&](SimCluster& cluster, const Names& bobs, const Names& nobodys) {
    Attacker eve(*reactor_, cluster);
    for (const auto& [kind, row] : frame_rows()) {
      const std::vector<Message> of_bobs = row(eve, bobs), of_nobodys = row(eve, nobodys);
      for (size_t i = 0; i < of_bobs.size(); ++i) {
        SCOPED_TRACE(cat(kind, " ", i));
        const std::string said = eve.told_of(of_bobs[i]);
        EXPECT_EQ(masked(said, bobs), masked(eve.told_of(of_nobodys[i]), nobodys));
        EXPECT_THAT(said, Not(HasSubstr("done: ")));
        EXPECT_EQ(said.empty(), kind == "cancel" || kind == "free" || kind == "release");
        step_();
      }
    }
    sent<wire::Session::CloseResults>(eve.session().closeRequest());
  });
}

TEST_F(AttacksTest, FramesThatAreNotAClientsToSendEndItsConnectionAlone) {
  under_attack([&](SimCluster& cluster, const Names& bobs, const Names&) {
    for (const auto& [kind, message] : foreign_frames(bobs)) {
      SCOPED_TRACE(kind);
      Attacker eve(*reactor_, cluster);
      EXPECT_TRUE(eve.is_closed_for(message));
      step_();
    }
  });
}

}  // namespace
}  // namespace gangway
