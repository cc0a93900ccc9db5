#include "protocol/frames.h"

#include "protocol/error_wire.h"
#include "protocol/frames.capnp.h"
#include "protocol/segment_wire.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/net/frames.h"

namespace gangway {
namespace {

capnp::Data::Reader data(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> bytes_of(capnp::Data::Reader data, size_t bytes_max, const char* what) {
  GW_REQUIRE(data.size() <= bytes_max, "frame: ", what, " is too large: ", data.size(),
             " bytes, at most ", bytes_max);
  const auto* begin = reinterpret_cast<const std::byte*>(data.begin());
  return {begin, begin + data.size()};
}

template <class T, class List>
void fill_ids(List list, const std::vector<T>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) list.set(static_cast<uint32_t>(i), ids[i].value);
}

std::vector<ArrayId> array_ids(capnp::List<uint64_t>::Reader list) {
  std::vector<ArrayId> ids;
  ids.reserve(list.size());
  for (uint64_t id : list) ids.emplace_back(id);
  return ids;
}

uint32_t count(size_t size) { return static_cast<uint32_t>(size); }

// Limit on a ticket; it leaves room for the positions of one range.
constexpr uint64_t kTicketMax = uint64_t{1} << 62;

void fill(capnp::List<int64_t>::Builder list, const Dims& rows) {
  for (uint32_t i = 0; i < list.size(); ++i) list.set(i, rows[i]);
}

void write_times(capnp::List<wire::SectionTime>::Builder to,
                 const std::vector<SectionTime>& times) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setRun(times[i].run.value);
    to[i].setSlice(times[i].slice);
    to[i].setPositionEnd(times[i].position_end);
    to[i].setBusyNs(times[i].busy_ns);
  }
}

struct Encode {
  wire::Frame::Builder to;

  void operator()(const UninstallFrame& frame) {
    frame.refused ? to.setRefused(frame.plan.value) : to.setUninstall(frame.plan.value);
  }

  void operator()(const RunFrame& frame) { write_run(to.initRun(), frame); }

  void operator()(const PrepareFrame& frame) {
    auto prepare = to.initPrepare();
    prepare.setOrdinal(frame.ordinal);
    write_run(prepare.initRun(), frame.run);
  }

  void operator()(const GrantFrame& frame) {
    auto ranges = to.initGrant(count(frame.ranges.size()));
    for (uint32_t i = 0; i < ranges.size(); ++i) {
      const GrantRange& range = frame.ranges[i];
      ranges[i].setRun(range.run.value);
      ranges[i].setSlice(range.slice);
      ranges[i].setFirst(range.first);
      ranges[i].setCount(range.count);
      ranges[i].setTicket(range.ticket.value);
    }
  }

  void operator()(const ProgressFrame& frame) {
    write_times(to.initProgress(count(frame.times.size())), frame.times);
  }

  static void write_run(wire::Run::Builder run, const RunFrame& frame) {
    run.setPlan(frame.plan.value);
    run.setRun(frame.run.value);
    run.setAfter(frame.after.value);
    run.setTimeLimitMs(frame.time_limit_ms);
    auto arguments = run.initArguments(count(frame.arguments.size()));
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      arguments[i].setInput(frame.arguments[i].input);
      if (frame.arguments[i].bytes.empty()) {
        arguments[i].setArray(frame.arguments[i].array.value);
      } else {
        arguments[i].setInline(data(frame.arguments[i].bytes));
      }
    }
    fill_ids(run.initOutputs(count(frame.outputs.size())), frame.outputs);
    auto positions = run.initSourcePositions(count(frame.source_positions.size()));
    for (uint32_t i = 0; i < positions.size(); ++i) positions.set(i, frame.source_positions[i]);
  }

  void operator()(const CancelFrame& frame) {
    auto cancel = to.initCancel();
    cancel.setRun(frame.run.value);
    write_error(cancel.initError(), frame.error);
  }

  void operator()(const FreeFrame& frame) {
    fill_ids(to.initFree(count(frame.arrays.size())), frame.arrays);
  }

  void operator()(const HostTransferFrame& frame) {
    auto copy = to.initCopy();
    copy.setRequest(frame.request);
    copy.setTicket(frame.ticket.value);
    auto at = copy.initAt();
    write_segment(at.initSegment(), frame.at.segment);
    at.setOffset(frame.at.offset);
    at.setBytes(frame.at.bytes);
    fill(copy.initPartBegin(count(frame.part.begin.size())), frame.part.begin);
    fill(copy.initPartSize(count(frame.part.size.size())), frame.part.size);
    switch (frame.kind) {
      case HostTransferKind::kPut: {
        auto put = copy.initPut();
        put.setArray(frame.array.value);
        put.setPlan(frame.plan.value);
        put.setInput(frame.input);
        break;
      }
      case HostTransferKind::kGet: copy.initGet().setArray(frame.array.value); break;
      case HostTransferKind::kWriteState: {
        auto put = copy.initPutState();
        put.setScope(frame.scope.id);
        put.setName(frame.name);
        break;
      }
      case HostTransferKind::kReadState: {
        auto get = copy.initGetState();
        get.setScope(frame.scope.id);
        get.setName(frame.name);
        break;
      }
    }
  }

  void operator()(const HostTransferDoneFrame& frame) {
    auto done = to.initCopyDone();
    done.setRequest(frame.request);
    if (frame.error) write_error(done.initError(), *frame.error);
    done.setSettled(frame.is_settled);
    done.setComesAgain(frame.comes_again);
  }

  void operator()(const RunDoneFrame& frame) {
    auto done = to.initRunDone();
    done.setRun(frame.run.value);
    done.setCulprit(frame.is_origin);
    done.setRefused(frame.refused);
    if (frame.error) write_error(done.initError(), *frame.error);
    auto outputs = done.initOutputs(count(frame.outputs.size()));
    for (uint32_t i = 0; i < outputs.size(); ++i) {
      outputs[i].setOutput(frame.outputs[i].output);
      outputs[i].setBytes(data(frame.outputs[i].bytes));
    }
    if (!frame.times.empty()) write_times(done.initTimes(count(frame.times.size())), frame.times);
  }

  void operator()(const HeartbeatFrame& frame) {
    auto heartbeat = to.initHeartbeat();
    heartbeat.setRunsDone(frame.runs_done);
    heartbeat.setMovedInHost(frame.moved[0]);
    heartbeat.setMovedInIsland(frame.moved[1]);
    heartbeat.setMovedBetweenIslands(frame.moved[2]);
    heartbeat.setReactorLongestMs(frame.reactor_longest_ms);
    if (frame.stuck.empty()) return;
    auto stuck = heartbeat.initStuck(count(frame.stuck.size()));
    for (uint32_t i = 0; i < stuck.size(); ++i) {
      const StuckDevice& one = frame.stuck[i];
      stuck[i].setDevice(one.device);
      stuck[i].setRun(one.run.value);
      stuck[i].setWhat(cut(one.what, kQuotedBytesMax));
      stuck[i].setAt(cut(one.at, kQuotedBytesMax));
      stuck[i].setMs(one.ms);
      stuck[i].setWaits(one.waits);
    }
  }

  void operator()(const FreeScopeFrame& frame) { to.setFreeScope(frame.scope.id); }

  void operator()(const WarningFrame& frame) { to.setWarning(cut(frame.text, kTextBytesMax)); }

  void operator()(const LinkBrokenFrame& frame) {
    auto broken = to.initLinkBroken();
    broken.setPlan(frame.plan.value);
    broken.setHost(frame.host);
    broken.setWhy(cut(frame.why, kQuotedBytesMax));
  }

  void operator()(const ReleaseFrame& frame) {
    auto calls = to.initRelease(count(frame.calls.size()));
    for (uint32_t i = 0; i < calls.size(); ++i) calls.set(i, frame.calls[i]);
  }
};

RunFrame read_run(wire::Run::Reader from) {
  RunFrame run{.plan = PlanId(from.getPlan()),
               .run = RunId(from.getRun()),
               .after = RunId(from.getAfter()),
               .outputs = array_ids(from.getOutputs()),
               .time_limit_ms = from.getTimeLimitMs()};
  GW_REQUIRE(run.time_limit_ms >= 0, "frame: a negative time limit: ", run.time_limit_ms, " ms");
  size_t room = kInlineBytesMax;
  for (auto argument : from.getArguments()) {
    ArgumentFrame& to = run.arguments.emplace_back();
    to.input = argument.getInput();
    if (argument.isInline()) {
      to.bytes = bytes_of(argument.getInline(), room, "an inline argument, with those before it,");
      GW_REQUIRE(!to.bytes.empty(), "frame: an inline argument is empty");
      room -= to.bytes.size();
    } else {
      to.array = ArrayId(argument.getArray());
    }
  }
  for (uint64_t position : from.getSourcePositions()) run.source_positions.push_back(position);
  return run;
}

GrantFrame read_grant(capnp::List<wire::GrantRange>::Reader from) {
  GrantFrame grant;
  grant.ranges.reserve(from.size());
  for (auto range : from) {
    GW_REQUIRE(range.getCount() >= 1, "frame: a grant of no positions");
    GW_REQUIRE(
        range.getTicket() <= kTicketMax && range.getFirst() <= ~uint32_t{0} - range.getCount(),
        "frame: a grant of positions or tickets beyond all that there are");
    GrantRange& to = grant.ranges.emplace_back();
    to = {.run = RunId(range.getRun()),
          .slice = range.getSlice(),
          .first = range.getFirst(),
          .count = range.getCount(),
          .ticket = Ticket(range.getTicket())};
  }
  return grant;
}

std::vector<SectionTime> read_times(capnp::List<wire::SectionTime>::Reader from) {
  std::vector<SectionTime> times;
  times.reserve(from.size());
  for (auto time : from) {
    GW_REQUIRE(time.getBusyNs() >= 0, "frame: a section took less than no time");
    times.push_back({.run = RunId(time.getRun()),
                     .slice = time.getSlice(),
                     .position_end = time.getPositionEnd(),
                     .busy_ns = time.getBusyNs()});
  }
  return times;
}

Dims read_rows(capnp::List<int64_t>::Reader from) {
  GW_REQUIRE(from.size() <= static_cast<uint32_t>(kRankMax),
             "frame: a part of more dimensions than a tensor has");
  Dims rows;
  for (const int64_t number : from) rows.push_back(number);
  return rows;
}

HostTransferFrame read_host_transfer(wire::Copy::Reader from) {
  GW_REQUIRE(from.getTicket() <= kTicketMax,
             "frame: a copy with a ticket beyond all that there are");
  auto at = from.getAt();
  HostTransferFrame to{.request = from.getRequest(),
                       .at = {.segment = read_segment(at.getSegment()),
                              .offset = at.getOffset(),
                              .bytes = at.getBytes()},
                       .ticket = Ticket(from.getTicket())};
  const ClientBytes& bytes = to.at;
  const int64_t size = static_cast<int64_t>(bytes.segment.bytes);
  GW_REQUIRE(bytes.offset >= 0 && bytes.bytes >= 0 && size >= bytes.bytes &&
                 bytes.offset <= size - bytes.bytes,
             "frame: a copy's bytes lie outside its segment: ", bytes.bytes, " bytes at ",
             bytes.offset, " of ", bytes.segment.bytes);
  to.part = {read_rows(from.getPartBegin()), read_rows(from.getPartSize())};
  switch (from.which()) {
    case wire::Copy::PUT:
      to.kind = HostTransferKind::kPut;
      to.array = ArrayId(from.getPut().getArray());
      to.plan = PlanId(from.getPut().getPlan());
      to.input = from.getPut().getInput();
      return to;
    case wire::Copy::GET:
      to.kind = HostTransferKind::kGet;
      to.array = ArrayId(from.getGet().getArray());
      return to;
    case wire::Copy::PUT_STATE:
      to.kind = HostTransferKind::kWriteState;
      to.scope.id = from.getPutState().getScope();
      to.name = from.getPutState().getName().cStr();
      return to;
    case wire::Copy::GET_STATE:
      to.kind = HostTransferKind::kReadState;
      to.scope.id = from.getGetState().getScope();
      to.name = from.getGetState().getName().cStr();
      return to;
  }
  throw Error(ErrorKind::kInvalid, "frame: a copy of an unknown kind");
}

RunDoneFrame read_run_done(wire::RunDone::Reader from) {
  RunDoneFrame done{.run = RunId(from.getRun()), .is_origin = from.getCulprit()};
  if (from.hasError()) done.error = read_error(from.getError());
  for (auto output : from.getOutputs()) {
    done.outputs.push_back(
        {output.getOutput(), bytes_of(output.getBytes(), kSmallBytesMax, "a small output")});
  }
  done.times = read_times(from.getTimes());
  done.refused = from.getRefused();
  return done;
}

HeartbeatFrame read_heartbeat(wire::Heartbeat::Reader from) {
  HeartbeatFrame heartbeat{
      from.getRunsDone(),
      {from.getMovedInHost(), from.getMovedInIsland(), from.getMovedBetweenIslands()},
      {},
      from.getReactorLongestMs()};
  for (auto stuck : from.getStuck()) {
    heartbeat.stuck.push_back({.device = stuck.getDevice(),
                               .run = RunId(stuck.getRun()),
                               .what = cut(stuck.getWhat().cStr(), kQuotedBytesMax),
                               .at = cut(stuck.getAt().cStr(), kQuotedBytesMax),
                               .ms = stuck.getMs(),
                               .waits = stuck.getWaits()});
  }
  return heartbeat;
}

Message read_frame(wire::Frame::Reader from) {
  switch (from.which()) {
    case wire::Frame::UNINSTALL: return UninstallFrame{PlanId(from.getUninstall())};
    case wire::Frame::REFUSED: return UninstallFrame{PlanId(from.getRefused()), true};
    case wire::Frame::RUN: return read_run(from.getRun());
    case wire::Frame::PREPARE:
      return PrepareFrame{from.getPrepare().getOrdinal(), read_run(from.getPrepare().getRun())};
    case wire::Frame::GRANT: return read_grant(from.getGrant());
    case wire::Frame::PROGRESS: return ProgressFrame{read_times(from.getProgress())};
    case wire::Frame::CANCEL:
      return CancelFrame{RunId(from.getCancel().getRun()), read_error(from.getCancel().getError())};
    case wire::Frame::FREE: return FreeFrame{array_ids(from.getFree())};
    case wire::Frame::COPY: return read_host_transfer(from.getCopy());
    case wire::Frame::COPY_DONE: {
      auto done = from.getCopyDone();
      HostTransferDoneFrame to{.request = done.getRequest(),
                               .error = {},
                               .is_settled = done.getSettled(),
                               .comes_again = done.getComesAgain()};
      if (done.hasError()) to.error = read_error(done.getError());
      return to;
    }
    case wire::Frame::RUN_DONE: return read_run_done(from.getRunDone());
    case wire::Frame::HEARTBEAT: return read_heartbeat(from.getHeartbeat());
    case wire::Frame::FREE_SCOPE: return FreeScopeFrame{from.getFreeScope()};
    case wire::Frame::WARNING: return WarningFrame{cut(from.getWarning().cStr(), kTextBytesMax)};
    case wire::Frame::LINK_BROKEN:
      return LinkBrokenFrame{PlanId(from.getLinkBroken().getPlan()), from.getLinkBroken().getHost(),
                             cut(from.getLinkBroken().getWhy().cStr(), kQuotedBytesMax)};
    case wire::Frame::RELEASE: {
      ReleaseFrame released;
      for (uint64_t call : from.getRelease()) released.calls.push_back(call);
      return released;
    }
  }
  throw Error(ErrorKind::kInvalid, "frame: of an unknown kind", {},
              "the peer may run another version of Gangway");
}

template <class Read>
Message guarded(Read read) {
  try {
    return read();
  } catch (const kj::Exception& exception) {
    throw Error(ErrorKind::kInvalid, cat("frame: malformed: ", exception.getDescription().cStr()));
  }
}

}  // namespace

Frame encode(const Message& frame) {
  capnp::word scratch[64] = {};  // A typical frame fits, and then costs no allocation but its copy.
  capnp::MallocMessageBuilder message(kj::arrayPtr(scratch, 64));
  std::visit(Encode{message.initRoot<wire::Frame>()}, frame);
  return make_frame(message);
}

Message decode(capnp::MessageReader& reader) {
  return guarded([&] { return read_frame(reader.getRoot<wire::Frame>()); });
}

Message decode(const Frame& frame) {
  GW_REQUIRE(frame->size() > 0, "frame: malformed: it has no message");
  return guarded([&] {
    // A message may refer to its words repeatedly, so that a short one would stand for a long one.
    // The limit is that of FrameStream.
    capnp::FlatArrayMessageReader reader(*frame,
                                         {.traversalLimitInWords = 8 * frame->size() + 1024});
    return read_frame(reader.getRoot<wire::Frame>());
  });
}

}  // namespace gangway
