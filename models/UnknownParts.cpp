#include "models/UnknownParts.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <string_view>

using moert::quoted;

namespace moec {

namespace {
bool isDigits(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view stemOf(std::string_view name) {
  if (name.starts_with("blk."))
    if (size_t dot = name.find('.', 4);
        dot != name.npos && isDigits(name.substr(4, dot - 4)))
      name.remove_prefix(dot + 1);
  for (std::string_view suffix : {".weight", ".bias"})
    if (name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      break;
    }
  if (size_t dot = name.rfind('.');
      dot != name.npos && isDigits(name.substr(dot + 1)))
    name = name.substr(0, dot);
  return name;
}
} // namespace

std::vector<std::string> unknownParts(const GgufModel &model,
                                      const AskedParts &asked) {
  std::set<std::string_view> known, seen;
  for (const std::string &tensor : asked.tensors)
    known.insert(stemOf(tensor));
  std::vector<std::string> parts;
  for (const GgufTensor &tensor : model.tensors()) {
    std::string_view stem = stemOf(tensor.name);
    // Layers for multi-token prediction are skipped anyway.
    if (!stem.starts_with("nextn.") && !known.contains(stem) &&
        seen.insert(stem).second)
      parts.push_back("tensor " + quoted(tensor.name));
  }
  std::string prefix = std::string(model.architecture()) + ".";
  for (const auto &[key, value] : model.metadata())
    if (key.starts_with(prefix) &&
        !asked.keys.contains(key.substr(prefix.size())))
      parts.push_back("key " + quoted(key));
  return parts;
}

} // namespace moec
