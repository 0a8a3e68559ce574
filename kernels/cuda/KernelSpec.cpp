#include "kernels/cuda/KernelSpec.h"

#include <algorithm>
#include <charconv>

namespace moek::cuda {

using Role = PieceSpec::Role;

namespace {
/// Indexed by PieceSpec::Kind.
constexpr std::string_view kKinds[] = {"wide", "blocks", "warps"};
constexpr std::string_view kTiles = "tiles";

/// Returns "begins", "all", or "tiles0x" for the tiles of piece 0 along x.
std::string wordOf(const PieceSpec &piece) {
  if (piece.role == Role::Tiles)
    return std::string(kTiles) + std::to_string(piece.product) +
           (piece.axis ? "y" : "x");
  return piece.role == Role::Begins ? "begins" : "all";
}

template <class Number> Number numberIn(std::string_view text) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Removes the first word of `text`.
std::string_view takeWord(std::string_view &text) {
  size_t end = std::min(text.find(' '), text.size());
  std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

Definition definitionIn(std::string_view word) {
  size_t equal = word.find('=');
  if (equal == std::string_view::npos)
    return {std::string(word)};
  return {std::string(word.substr(0, equal)),
          numberIn<int64_t>(word.substr(equal + 1))};
}

PieceSpec pieceIn(std::string_view text) {
  PieceSpec piece;
  std::string_view role = takeWord(text), kind = takeWord(text);
  if (role.starts_with(kTiles)) {
    piece.role = Role::Tiles;
    piece.product = numberIn<size_t>(role.substr(kTiles.size()));
    piece.axis = role.ends_with('y');
  } else if (role == "all") {
    piece.role = Role::All;
  }
  if (const auto *known = std::ranges::find(kKinds, kind);
      known != std::end(kKinds))
    piece.kind = PieceSpec::Kind(known - std::begin(kKinds));
  piece.file = takeWord(text);
  while (!text.empty())
    piece.defines.push_back(definitionIn(takeWord(text)));
  return piece;
}
} // namespace

bool usesWarpgroups(const KernelSpec &spec, int arch) {
  return arch == kWarpgroupArch &&
         std::ranges::any_of(spec.defines, [](const Definition &definition) {
           return definition.name == kWarpgroup;
         });
}

std::string textOf(const Definition &definition) {
  return definition.value
             ? definition.name + "=" + std::to_string(*definition.value)
             : definition.name;
}

std::vector<std::string> wordsOf(const KernelSpec &spec) {
  std::vector<std::string> words;
  for (const Definition &definition : spec.defines)
    words.push_back(textOf(definition));
  for (const PieceSpec &piece : spec.pieces) {
    std::string text = wordOf(piece) + " " +
                       std::string(kKinds[size_t(piece.kind)]) + " " +
                       piece.file;
    for (const Definition &definition : piece.defines)
      text += " " + textOf(definition);
    words.push_back(std::move(text));
  }
  return words;
}

KernelSpec specOf(std::string file, std::string entry,
                  std::span<const std::string> words) {
  KernelSpec spec{std::move(file), std::move(entry), {}};
  for (const std::string &word : words)
    if (isFused(spec))
      spec.pieces.push_back(pieceIn(word));
    else
      spec.defines.push_back(definitionIn(word));
  return spec;
}

} // namespace moek::cuda
