// Id<Tag>: a number that names one kind of thing, so that a RunId can't be passed where a HostId is
// meant.
//
// Example:
//   struct JobTag;
//   using JobId = Id<JobTag>;  // 64 bits; Id<JobTag, uint32_t> for 32.
//   JobId job{7};
//   std::map<JobId, std::string> names{{job, "train"}};  // Ordered, hashable and printable.
//   std::cout << job.next();
//
// Threads: a value; safe anywhere.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace gangway {

template <class Tag, class Rep = uint64_t>
struct Id {
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}

  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id next() const { return Id(static_cast<Rep>(value + 1)); }

  friend std::ostream& operator<<(std::ostream& out, Id id) {
    return out << static_cast<uint64_t>(id.value);
  }
};

using PlanId = Id<struct PlanTag>;        // An installed plan; the controller names it.
using RunId = Id<struct RunTag>;          // One run; unique within a controller, increasing.
using ArrayId = Id<struct ArrayTag>;      // A logical array; the client that created it names it.
using SessionId = Id<struct SessionTag>;  // A connected client.
using Ticket = Id<struct TicketTag>;      // A place in the controller-wide order.

}  // namespace gangway

template <class Tag, class Rep>
struct std::hash<gangway::Id<Tag, Rep>> {
  size_t operator()(gangway::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>()(id.value); }
};
