//===- ModelAttrs.cpp - moe.model and moe.files ---------------------------===//

#include "models/ModelBuilder.h"
#include "runtime/base/ContentHash.h"

using namespace mlir;

namespace moec {

DictionaryAttr ModelBuilder::modelAttr(StringRef hash) {
  std::string_view architecture = model_.architecture();
  // A missing name, or one that is no string, is ignored.
  auto name = model_.getString("general.name");
  std::string_view title = name.isOk() ? name->value_or("") : "";
  SmallVector<NamedAttribute> entries;
  auto text = [&](StringRef key, std::string_view value) {
    entries.push_back(builder_.getNamedAttr(
        key, builder_.getStringAttr(StringRef(value.data(), value.size()))));
  };
  auto number = [&](StringRef key, int64_t value) {
    entries.push_back(
        builder_.getNamedAttr(key, builder_.getI64IntegerAttr(value)));
  };
  text("architecture", architecture);
  text("name", title);
  text("hash", hash.str());
  text("pooling", facts_.pooling);
  entries.push_back(builder_.getNamedAttr(
      "labels", builder_.getStrArrayAttr(SmallVector<StringRef>(
                    facts_.labels.begin(), facts_.labels.end()))));
  number("hidden", facts_.hidden);
  number("vocab", facts_.vocab);
  number("layers", facts_.layers);
  number("mtp_layers", facts_.mtpLayers);
  number("context_length", facts_.contextLength);
  number("heads", facts_.heads);
  number("experts", facts_.experts);
  number("experts_used", facts_.expertsUsed);
  number("latent", facts_.latent);
  number("rope", facts_.rope);
  number("parameters", parameters_);
  return builder_.getDictionaryAttr(entries);
}

ArrayAttr ModelBuilder::filesAttr(std::string &hash) {
  SmallVector<Attribute> files;
  std::string hashes;
  for (size_t i = 0; i < model_.paths().size(); ++i) {
    std::string own = moert::contentHash(model_.header(i));
    files.push_back(builder_.getDictionaryAttr(
        {builder_.getNamedAttr("path",
                               builder_.getStringAttr(model_.paths()[i])),
         builder_.getNamedAttr("bytes",
                               builder_.getI64IntegerAttr(model_.fileBytes(i))),
         builder_.getNamedAttr(
             "header_bytes", builder_.getI64IntegerAttr(model_.headerBytes(i))),
         builder_.getNamedAttr("header_hash", builder_.getStringAttr(own))}));
    hashes += own;
  }
  // The hash of one file is that of its header; for several, it is the hash of
  // their hashes in order.
  hash = files.size() == 1
             ? hashes
             : moert::contentHash(
                   std::span(reinterpret_cast<const uint8_t *>(hashes.data()),
                             hashes.size()));
  return builder_.getArrayAttr(files);
}

} // namespace moec
