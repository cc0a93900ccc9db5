// The bounds that every reader and verifier of graphs enforces, so that no input makes a size
// overflow, a stack run out or a message unreadable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gangway {

inline constexpr size_t kNodesMax = size_t{1} << 20;   // Nodes of a function or a program.
inline constexpr size_t kValuesMax = size_t{1} << 21;  // Values of a function.
inline constexpr size_t kParametersMax = size_t{1} << 16;
inline constexpr size_t kInputsMax = size_t{1} << 16;  // Inputs of a node.
inline constexpr size_t kResultsMax = size_t{1} << 16;
inline constexpr size_t kFunctionsMax = size_t{1} << 16;  // Functions of a program.
inline constexpr size_t kSlicesMax = size_t{1} << 12;
inline constexpr size_t kLocsMax = size_t{1} << 20;
inline constexpr size_t kMeshAxesMax = 16;
inline constexpr int kAnnotationPriorityMax = 15;  // Highest priority of an annotation.
inline constexpr int64_t kMeshDevicesMax = int64_t{1} << 24;
inline constexpr size_t kNameBytesMax = 1024;          // Names, files, scopes.
inline constexpr size_t kAttrsMax = 64;                // Attributes of a node.
inline constexpr size_t kAttrTextBytesMax = 65536;     // A string attribute.
inline constexpr size_t kAttrIntsMax = 4096;           // An attribute that is a list.
inline constexpr int kBodyDepthMax = 8;                // Bodies of nodes inside bodies.
inline constexpr size_t kBodiesMax = size_t{1} << 16;  // Distinct bodies that scans and calls name.
// Nodes of a function, and of all functions of a program together, where the nodes of a body count
// as often as the body is named: the work of a pass that follows each use.
inline constexpr size_t kExpandedNodesMax = size_t{1} << 22;
inline constexpr int64_t kScanLengthMax = int64_t{1} << 24;
inline constexpr size_t kTextFormBytesMax = 64u << 20;  // A text form.
inline constexpr size_t kWireWordsMax = 8u << 20;       // A wire form, unpacked: 64 MiB.
inline constexpr size_t kWireCopiesMax = 256u << 20;    // Bytes that its tables expand to.
inline constexpr int kWireNestingMax = 64;

}  // namespace gangway
