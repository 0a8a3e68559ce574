#include "compiler/Import/ModelCard.h"

#include <nlohmann/json.hpp>

namespace moec {

namespace {

using Json = nlohmann::ordered_json;

template <typename T> Json orNull(const std::optional<T> &value) {
  return value ? Json(*value) : Json();
}

Json useJson(const ModelCard::Use &use) {
  return {{"tensors", use.tensors},
          {"parameters", use.parameters},
          {"bytes", use.bytes}};
}

Json expertsJson(const ModelCard::Experts &experts) {
  return {{"count", experts.count},
          {"used", experts.used},
          {"shared", experts.shared},
          {"groups", experts.groups},
          {"groups_used", experts.groupsUsed},
          {"feed_forward_length", orNull(experts.width)},
          {"gating", orNull(experts.gating)}};
}

/// Returns a part's name as a key: "routed_experts" for "routed experts".
std::string partKey(ModelPart part) {
  std::string key;
  for (char c : modelPartName(part))
    key += c == ' ' ? '_' : static_cast<char>(std::tolower(c));
  return key;
}

} // namespace

std::string modelCardJson(const ModelCard &card) {
  Json json = {{"architecture", card.architecture},
               {"name", orNull(card.name)},
               {"gguf_version", card.version},
               {"files", card.paths},
               {"file_bytes", card.fileBytes},
               {"parameters", card.total.parameters},
               {"active_parameters", card.active.parameters},
               {"weight_bytes", card.total.bytes},
               {"active_bytes", card.active.bytes},
               {"bits_per_weight", card.bitsPerWeight()}};
  json["layers"] = {{"total", card.layers.total},
                    {"dense", card.layers.dense},
                    {"moe", card.layers.moe},
                    {"mtp", card.layers.mtp}};
  json["experts"] = card.experts ? expertsJson(*card.experts) : Json();
  json["embedding_length"] = orNull(card.embeddingLength);
  json["feed_forward_length"] = orNull(card.ffnLength);
  json["head_count"] = orNull(card.heads);
  json["head_count_kv"] = orNull(card.headsKv);
  json["context_length"] = orNull(card.contextLength);
  json["vocab_size"] = orNull(card.vocabularySize);
  json["tied_output"] = card.tiedOutput;
  json["tokenizer"] = orNull(card.tokenizer);
  json["pre_tokenizer"] = orNull(card.preTokenizer);
  json["parts"] = Json::object();
  for (unsigned i = 0; i < modelPartCount; ++i)
    json["parts"][partKey(static_cast<ModelPart>(i))] = useJson(card.parts[i]);
  json["formats"] = Json::array();
  for (const ModelCard::FormatUse &format : card.formats) {
    moek::FormatInfo info = moek::formatInfo(format.format);
    Json entry = {{"format", std::string(info.name)},
                  {"has_kernels", info.hasKernels}};
    entry.update(useJson(format));
    json["formats"].push_back(std::move(entry));
  }
  if (card.verdict) {
    const ModelCard::Verdict &verdict = *card.verdict;
    json["compiles"] = verdict.refusal.empty();
    json["refusal"] = verdict.refusal.empty() ? Json() : Json(verdict.refusal);
    json["notes"] = verdict.notes;
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace moec
