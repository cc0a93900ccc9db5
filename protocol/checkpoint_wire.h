// Converts the values of checkpoints between control.capnp and C++, for the files of the rooms
// above that serve RPC.
//
// Threads: pure functions.
// Errors: kInvalid for an unknown type of elements.
#pragma once

#include "protocol/checkpoint_files.h"
#include "protocol/control.capnp.h"
#include "protocol/recovery_options.h"

namespace gangway {

inline void write(capnp::List<wire::TextPair>::Builder to,
                  const std::map<std::string, std::string>& texts) {
  uint32_t i = 0;
  for (const auto& [key, text] : texts) {
    to[i].setKey(key);
    to[i++].setText(text);
  }
}
inline std::map<std::string, std::string> read(capnp::List<wire::TextPair>::Reader from) {
  std::map<std::string, std::string> texts;
  for (auto pair : from) texts.insert_or_assign(pair.getKey().cStr(), pair.getText().cStr());
  return texts;
}

inline void write(wire::CheckpointFiles::Builder to, const CheckpointFiles& files) {
  to.setFolder(files.folder);
  to.setVersion(files.version);
  to.setKeep(static_cast<uint32_t>(files.keep));
  to.setKnown(files.known);
  to.setOwnerBytesMax(files.owner_bytes_max);
  write(to.initMetadata(static_cast<uint32_t>(files.metadata.size())), files.metadata);
  auto tensors = to.initTensors(static_cast<uint32_t>(files.tensors.size()));
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& tensor = files.tensors[i];
    tensors[i].setName(tensor.name);
    tensors[i].setDtype(static_cast<uint8_t>(tensor.type.dtype));
    tensors[i].setOffset(tensor.offset);
    tensors[i].setMayBeMissing(tensor.may_be_missing);
    auto dims = tensors[i].initDims(static_cast<uint32_t>(tensor.type.dims.size()));
    for (uint32_t d = 0; d < dims.size(); ++d) dims.set(d, tensor.type.dims[d]);
  }
}
inline CheckpointFiles read(wire::CheckpointFiles::Reader from) {
  CheckpointFiles files{.folder = from.getFolder().cStr(),
                        .version = from.getVersion(),
                        .keep = static_cast<int>(from.getKeep()),
                        .known = from.getKnown(),
                        .owner_bytes_max = from.getOwnerBytesMax(),
                        .metadata = read(from.getMetadata())};
  files.tensors.reserve(from.getTensors().size());
  for (auto tensor : from.getTensors()) {
    GW_REQUIRE(tensor.getDtype() < kDTypeCount, "checkpoint: tensor \"", tensor.getName().cStr(),
               "\": there is no type of elements number ", int{tensor.getDtype()});
    StoredTensor& to = files.tensors.emplace_back();
    to.name = tensor.getName().cStr();
    to.type.dtype = static_cast<DType>(tensor.getDtype());
    for (const int64_t dim : tensor.getDims()) to.type.dims.push_back(dim);
    to.offset = tensor.getOffset();
    to.may_be_missing = tensor.getMayBeMissing();
  }
  return files;
}

inline void write(wire::Session::KeepCheckpointsParams::Builder to,
                  const RecoveryOptions& options) {
  to.setEvery(options.every);
  to.setKeep(static_cast<uint32_t>(options.keep));
  to.setFirst(options.first);
  auto elastic = to.initElastic(static_cast<uint32_t>(options.elastic.size()));
  for (uint32_t i = 0; i < elastic.size(); ++i) elastic.set(i, options.elastic[i]);
  write(to.initMetadata(static_cast<uint32_t>(options.metadata.size())), options.metadata);
}
// Throws for options beyond the bounds of require_recovery().
inline RecoveryOptions read(wire::Session::KeepCheckpointsParams::Reader from) {
  RecoveryOptions options{.every = from.getEvery(),
                          .keep = static_cast<int>(from.getKeep()),
                          .first = from.getFirst(),
                          .metadata = read(from.getMetadata())};
  for (auto axis : from.getElastic()) options.elastic.emplace_back(axis.cStr());
  require_recovery(options);
  return options;
}

}  // namespace gangway
