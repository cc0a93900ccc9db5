// Distinct id types: a PlanId is never a RunId.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace gangway {

template <class Tag>
struct Id {
  uint64_t value = 0;

  friend auto operator<=>(const Id&, const Id&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Id& id) { return out << id.value; }
};

using PlanId = Id<struct PlanTag>;  // An installed plan; the controller names it.
using RunId = Id<struct RunTag>;    // One run; unique within a controller, increasing.
using ArrayId =
    Id<struct ArrayTag>;  // A logical array; the client names it: (session << 40) + counter.
using SessionId = Id<struct SessionTag>;  // A connected client.
using Ticket = Id<struct TicketTag>;      // A place in the controller-wide order.

}  // namespace gangway

template <class Tag>
struct std::hash<gangway::Id<Tag>> {
  size_t operator()(const gangway::Id<Tag>& id) const noexcept {
    return std::hash<uint64_t>()(id.value);
  }
};
