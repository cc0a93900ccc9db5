// Converts small values between control.capnp and C++, for the *_rpc.cc files of the rooms above.
//
// Threads: pure functions.
#pragma once

#include "protocol/control.capnp.h"
#include "protocol/install.h"
#include "protocol/machine.h"
#include "protocol/reported.h"
#include "protocol/share.h"
#include "protocol/version.h"
#include "runtime/base/error.h"

namespace gangway {

inline void write(wire::Version::Builder to, const Version& version) {
  to.setProtocol(version.protocol);
  to.setRelease(version.release);
}
inline Version read(wire::Version::Reader from) {
  return {.protocol = from.getProtocol(), .release = from.getRelease().cStr()};
}

inline void write(wire::Machine::Builder to, const Machine& machine) {
  to.setIdentity(machine.identity);
  to.setHost(machine.host);
}
inline Machine read(wire::Machine::Reader from) {
  return {.identity = from.getIdentity().cStr(), .host = from.getHost().cStr()};
}

inline void write(wire::Share::Builder to, const Share& share) {
  to.setWeight(share.weight);
  to.setPriority(share.priority);
}
inline Share read(wire::Share::Reader from) {
  return {.weight = from.getWeight(), .priority = from.getPriority()};
}

inline void write(capnp::List<wire::ReportedNumber>::Builder to, const Reported& numbers) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setName(numbers[i].name);
    to[i].setValue(numbers[i].value);
  }
}
// Reads at most kReportedMax numbers, and one more if there are too many.
inline Reported read(capnp::List<wire::ReportedNumber>::Reader from) {
  Reported numbers;
  for (auto number : from) {
    if (numbers.size() > kReportedMax) break;
    numbers.push_back({number.getName().cStr(), number.getValue()});
  }
  return numbers;
}

inline void write(capnp::List<wire::DeviceNeed>::Builder to, const std::vector<DeviceNeed>& needs) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setDevice(needs[i].device);
    to[i].setArena(needs[i].arena);
    to[i].setState(needs[i].state);
    to[i].setSlots(needs[i].slots);
    to[i].setOverlaid(needs[i].overlaid);
  }
}
inline std::vector<DeviceNeed> read(capnp::List<wire::DeviceNeed>::Reader from) {
  std::vector<DeviceNeed> needs;
  needs.reserve(from.size());
  for (auto need : from)
    needs.push_back(
        {need.getDevice(), need.getArena(), need.getState(), need.getSlots(), need.getOverlaid()});
  return needs;
}

inline void write(capnp::List<wire::LinkOffer>::Builder to, const std::vector<LinkOffer>& offers) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setHost(offers[i].host);
    const auto* bytes = reinterpret_cast<const kj::byte*>(offers[i].bytes.data());
    to[i].setBytes(kj::arrayPtr(bytes, offers[i].bytes.size()));
  }
}
inline std::vector<LinkOffer> read(capnp::List<wire::LinkOffer>::Reader from) {
  std::vector<LinkOffer> offers;
  offers.reserve(from.size());
  for (auto offer : from) {
    const auto bytes = offer.getBytes();
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.begin());
    offers.push_back({offer.getHost(), {begin, begin + bytes.size()}});
  }
  return offers;
}

inline void write(capnp::List<wire::SourceText>::Builder to, const std::vector<SourceText>& texts) {
  for (uint32_t i = 0; i < to.size(); ++i) {
    to[i].setPath(texts[i].path);
    to[i].setBytes(texts[i].bytes);
    to[i].setHash(texts[i].hash);
  }
}
inline std::vector<SourceText> read(capnp::List<wire::SourceText>::Reader from) {
  GW_REQUIRE(from.size() <= kTextsMax, "texts of a plan: expected at most ", kTextsMax, ", got ",
             from.size());
  std::vector<SourceText> texts;
  for (auto text : from)
    texts.push_back({text.getPath().cStr(), text.getBytes(), text.getHash().cStr()});
  return texts;
}

}  // namespace gangway
