// Islands: hosts that reach one another faster than they reach other hosts (one rack, one network
// of GPUs), and the classes of links that follow from them. An executor says which island its host
// lies in; every host that says nothing lies in kMainIsland.
//
//   host     both devices are of one host
//   island   two hosts of one island
//   between  two hosts of different islands
//
// Threads: pure. Errors: require_island_name() throws kInvalid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace gangway {

struct Plan;

enum class LinkClass : uint8_t { kHost, kIsland, kBetweenIslands };
inline constexpr std::array<LinkClass, 3> kLinkClasses = {LinkClass::kHost, LinkClass::kIsland,
                                                          LinkClass::kBetweenIslands};
const char* to_string(LinkClass link);                        // "host", "island", "between".
using LinkBytes = std::array<uint64_t, kLinkClasses.size()>;  // Indexed by LinkClass.

inline constexpr char kMainIsland[] = "main";
// A plain name (runtime/base/plain_name.h). `who` begins the message.
void require_island_name(const std::string& name, const std::string& who);

// The class of the link between hosts a and b of the plan.
LinkClass link_class(const Plan& plan, uint32_t a, uint32_t b);
bool spans_islands(const Plan& plan);

}  // namespace gangway
