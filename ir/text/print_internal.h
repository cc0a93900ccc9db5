// Spellings that functions and programs share in the text form.
//
// Printing accepts graphs that were never verified, since messages show them.
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph/bodies.h"
#include "ir/text/text.h"
#include "runtime/base/quote.h"

namespace gangway::internal {

std::string print_name(std::string_view name);                   // loss, or "two words".
std::string print_function_name(std::string_view name);          // @init.0, or @"two words".
std::string print_mesh(const Mesh& mesh);                        // "{data: 4}"
std::string print_type(const Type& type);                        // "f32[8, 16]"
std::string print_placements(const AxisPlacements& placements);  // "{data: shard(0)}"
std::string print_sharding(const Mesh& mesh, const Sharding& sharding);  // The same.
std::string print_attr(const AttrValue& value);
std::string print_attrs(const Attrs& attrs);  // "{axes = [0, 1], eps = 1e-05}"

// The whole function, each line behind `indent`; `bodies` holds those that it names.
std::string print_function(const Function& function, const PrintOptions& options,
                           const BodyTable& bodies, const std::string& indent);
// One line, as in a program's text.
std::string print_program_node(const Program& program, uint32_t id, const PrintOptions& options);
// "body 0 func @layer(...) { ... }" for each.
std::string print_bodies(const BodyTable& bodies, const PrintOptions& options,
                         const std::string& indent);

}  // namespace gangway::internal
