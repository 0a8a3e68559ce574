#include "compiler/Import/ModelCard.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

using namespace moert;

namespace moec {

namespace {

using Use = ModelCard::Use;

void addTensor(Use &use, uint64_t parameters, uint64_t bytes) {
  ++use.tensors;
  use.parameters += parameters;
  use.bytes += bytes;
}

uint64_t elements(const GgufTensor &tensor) {
  return tensor.shape[0] * tensor.shape[1] * tensor.shape[2] * tensor.shape[3];
}

/// Reads keys of one model and remembers the first failure, so that callers can
/// read a list of keys without checks in between.
class KeyReader {
public:
  explicit KeyReader(const GgufModel &model)
      : model_(model), prefix_(std::string(model.architecture()) + ".") {}

  const Status &status() const { return status_; }

  std::optional<uint64_t> number(const std::string &key) {
    return take(model_.getUint(prefix_ + key));
  }

  /// Returns an integer, or the largest element of an array with one per layer.
  std::optional<uint64_t> largest(const std::string &key) {
    const GgufValue *value = model_.find(prefix_ + key);
    if (!value || !std::holds_alternative<GgufArray>(value->data))
      return number(key);
    StatusOr<const GgufArray *> array =
        model_.getArray(prefix_ + key, GgufType::U32);
    if (!array.isOk()) {
      fail(array.status());
      return std::nullopt;
    }
    int64_t most = 0;
    for (int64_t element : (*array)->integers)
      most = std::max(most, element);
    return static_cast<uint64_t>(most);
  }

  /// Returns a string that is not one of the architecture's keys.
  std::optional<std::string> text(std::string_view key) {
    std::optional<std::string_view> value = take(model_.getString(key));
    return value ? std::optional(std::string(*value)) : std::nullopt;
  }

  uint64_t tokens() {
    StatusOr<const GgufArray *> array =
        model_.getArray("tokenizer.ggml.tokens", GgufType::String);
    if (!array.isOk()) {
      fail(array.status());
      return 0;
    }
    return *array ? (*array)->count : 0;
  }

private:
  void fail(Status status) {
    if (status_.isOk())
      status_ = std::move(status);
  }
  template <typename T>
  std::optional<T> take(StatusOr<std::optional<T>> value) {
    if (value.isOk())
      return *value;
    fail(value.status());
    return std::nullopt;
  }

  const GgufModel &model_;
  std::string prefix_;
  Status status_;
};

std::string gatingName(uint64_t number) {
  constexpr std::string_view names[] = {
      "softmax", "sigmoid", "softmax over the selected", "sqrt-softplus"};
  if (number >= 1 && number <= std::size(names))
    return std::string(names[number - 1]);
  return fmt::format("unknown ({})", number);
}

void readKeys(KeyReader &keys, ModelCard &card) {
  card.name = keys.text("general.name");
  card.tokenizer = keys.text("tokenizer.ggml.model");
  card.preTokenizer = keys.text("tokenizer.ggml.pre");
  card.contextLength = keys.number("context_length");
  card.embeddingLength = keys.number("embedding_length");
  card.heads = keys.largest("attention.head_count");
  card.headsKv = keys.largest("attention.head_count_kv");
  card.ffnLength = keys.largest("feed_forward_length");
  card.vocabularySize = keys.number("vocab_size");
  if (uint64_t tokens = keys.tokens(); tokens && !card.vocabularySize)
    card.vocabularySize = tokens;
  card.layers.total = keys.number("block_count").value_or(0);
  card.layers.mtp = std::min(keys.number("nextn_predict_layers").value_or(0),
                             card.layers.total);

  ModelCard::Experts experts;
  experts.count = keys.largest("expert_count").value_or(0);
  experts.used = keys.largest("expert_used_count").value_or(0);
  experts.shared = keys.number("expert_shared_count").value_or(0);
  experts.groups = keys.number("expert_group_count").value_or(0);
  experts.groupsUsed = keys.number("expert_group_used_count").value_or(0);
  experts.width = keys.largest("expert_feed_forward_length");
  if (std::optional<uint64_t> gating = keys.number("expert_gating_func"))
    experts.gating = gatingName(*gating);
  if (experts.count > 0)
    card.experts = experts;
}

/// Returns whether `layer` is one of the last layers, which predict more tokens
/// (MTP).
bool isMtpLayer(const ModelCard &card, std::optional<uint32_t> layer) {
  return layer && *layer >= card.layers.total - card.layers.mtp &&
         *layer < card.layers.total;
}

/// Sums up the tensors by part and by format, and counts the layers of each
/// kind.
void addTensors(const GgufModel &model, ModelCard &card) {
  std::map<moek::Format, Use> formats;
  std::map<uint32_t, bool> layerHasExperts;
  for (const GgufTensor &tensor : model.tensors()) {
    TensorRole role = tensorRole(tensor.name);
    if (isMtpLayer(card, role.layer))
      role.part = ModelPart::Mtp;
    else if (role.layer)
      layerHasExperts[*role.layer] |= role.part == ModelPart::RoutedExperts;
    uint64_t parameters = elements(tensor);
    addTensor(card.total, parameters, tensor.bytes);
    addTensor(card.parts[unsigned(role.part)], parameters, tensor.bytes);
    addTensor(formats[tensor.format], parameters, tensor.bytes);
  }
  for (const auto &[layer, hasExperts] : layerHasExperts)
    ++(hasExperts ? card.layers.moe : card.layers.dense);
  card.layers.total =
      std::max(card.layers.total, card.layers.dense + card.layers.moe);
  for (const auto &[format, use] : formats)
    card.formats.push_back({use, format});
  std::stable_sort(
      card.formats.begin(), card.formats.end(),
      [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
}

/// Scales `amount` from all experts to those that one token uses.
uint64_t usedShare(uint64_t amount, const ModelCard::Experts &experts) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(amount) *
                               experts.used / experts.count);
}

void addActive(ModelCard &card) {
  for (unsigned i = 0; i < modelPartCount; ++i) {
    const Use &use = card.parts[i];
    ModelPart part = static_cast<ModelPart>(i);
    if (part == ModelPart::Mtp ||
        (part == ModelPart::Embedding && !card.tiedOutput))
      continue;
    bool routed = part == ModelPart::RoutedExperts && card.experts;
    card.active.tensors += use.tensors;
    card.active.parameters +=
        routed ? usedShare(use.parameters, *card.experts) : use.parameters;
    card.active.bytes +=
        routed ? usedShare(use.bytes, *card.experts) : use.bytes;
  }
}

} // namespace

double ModelCard::bitsPerWeight() const {
  return total.parameters == 0
             ? 0
             : 8.0 * double(total.bytes) / double(total.parameters);
}

StatusOr<ModelCard> makeModelCard(const GgufModel &model) {
  ModelCard card;
  card.architecture = model.architecture();
  card.version = model.version();
  card.paths.assign(model.paths().begin(), model.paths().end());
  for (size_t i = 0; i < card.paths.size(); ++i)
    card.fileBytes += model.fileBytes(i);

  KeyReader keys(model);
  readKeys(keys, card);
  MOE_RETURN_IF_ERROR(keys.status());
  if (card.experts && card.experts->used > card.experts->count) {
    std::string key = card.architecture + ".expert_used_count";
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: byte {}: key {}: expected at most the {} "
                              "experts there are, found {}",
                              card.paths.front(), model.find(key)->fileOffset,
                              moert::quoted(key), card.experts->count,
                              card.experts->used));
  }

  addTensors(model, card);
  card.tiedOutput = card.part(ModelPart::Output).tensors == 0 &&
                    card.part(ModelPart::Embedding).tensors > 0;
  // Some architectures always have a shared expert, but no key for it.
  if (card.experts && card.experts->shared == 0 &&
      card.part(ModelPart::SharedExperts).tensors > 0)
    card.experts->shared = 1;
  addActive(card);
  return card;
}

} // namespace moec
