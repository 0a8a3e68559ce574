#include "compiler/Import/TensorRole.h"

#include <algorithm>
#include <charconv>

namespace moec {

namespace {

bool isDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

/// Removes "blk.N." from the front of `name` and returns N.
std::optional<uint32_t> takeLayer(std::string_view &name) {
  constexpr std::string_view prefix = "blk.";
  if (!name.starts_with(prefix))
    return std::nullopt;
  std::string_view rest = name.substr(prefix.size());
  size_t dot = rest.find('.');
  if (dot == std::string_view::npos || !isDigits(rest.substr(0, dot)))
    return std::nullopt;
  uint32_t layer = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + dot, layer);
  if (error != std::errc())
    return std::nullopt;
  name = rest.substr(dot + 1);
  return layer;
}

/// Returns whether the name is one like "ffn_up.3", in files from before
/// stacked experts.
bool isSingleExpert(std::string_view stem) {
  size_t dot = stem.rfind('.');
  return dot != std::string_view::npos && stem.starts_with("ffn_") &&
         isDigits(stem.substr(dot + 1));
}

/// Returns the part of a tensor. `stem` is the name without its layer and
/// without ".weight" or ".bias".
ModelPart partOfStem(std::string_view stem) {
  if (stem.ends_with("_norm") || stem.ends_with("_norm_2") ||
      stem.ends_with(".enorm") || stem.ends_with(".hnorm"))
    return ModelPart::Norms;
  if (stem == "output" || stem.starts_with("output."))
    return ModelPart::Output;
  if (stem == "token_embd" || stem == "token_types" ||
      stem == "position_embd" || stem == "per_layer_token_embd")
    return ModelPart::Embedding;
  if (stem.ends_with("_exps") || isSingleExpert(stem))
    return ModelPart::RoutedExperts;
  if (stem.ends_with("_shexp") || stem.ends_with("_shexps"))
    return ModelPart::SharedExperts;
  if (stem == "ffn_gate_inp" || stem.starts_with("exp_probs"))
    return ModelPart::Router;
  if (stem.starts_with("attn_"))
    return ModelPart::Attention;
  if (stem.starts_with("ffn_"))
    return ModelPart::DenseFfn;
  return ModelPart::Other;
}

} // namespace

std::string_view modelPartName(ModelPart part) {
  switch (part) {
  case ModelPart::Embedding:
    return "embedding";
  case ModelPart::Attention:
    return "attention";
  case ModelPart::DenseFfn:
    return "dense FFN";
  case ModelPart::Router:
    return "router";
  case ModelPart::RoutedExperts:
    return "routed experts";
  case ModelPart::SharedExperts:
    return "shared experts";
  case ModelPart::Norms:
    return "norms";
  case ModelPart::Output:
    return "output";
  case ModelPart::Mtp:
    return "MTP layers";
  case ModelPart::Other:
    return "other";
  }
  return "other";
}

TensorRole tensorRole(std::string_view name) {
  TensorRole role = {ModelPart::Other, takeLayer(name)};
  for (std::string_view suffix : {".weight", ".bias", ".scale"})
    if (name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      break;
    }
  role.part = partOfStem(name);
  return role;
}

} // namespace moec
