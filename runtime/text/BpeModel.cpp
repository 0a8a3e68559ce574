//===- BpeModel.cpp -------------------------------------------------------===//

#include "runtime/text/BpeModel.h"

#include "runtime/base/Utf8.h"

#include <bit>
#include <fmt/format.h>
#include <functional>

namespace moert {
namespace {

constexpr uint64_t noPair = UINT64_MAX;
constexpr uint32_t noRank = UINT32_MAX;
constexpr uint32_t noNode = UINT32_MAX;
constexpr int32_t dead = -1;
/// From this many bytes on, the per-word cost of the bucket queue (a table
/// over all ranks) is below what its cheaper operations save.
constexpr size_t longWord = 4096;

uint64_t pairOf(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
         static_cast<uint32_t>(right);
}

size_t hashPair(uint64_t pair) {
  // Fibonacci hashing: the high bits of the product depend on all of `pair`.
  return (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u >> 32;
}

/// GPT-2's alphabet: bytes that are printable in Latin-1 stand for themselves,
/// the other 68 for U+0100 onwards in ascending order.
constexpr std::array<int16_t, 0x144> byteAlphabet() {
  std::array<int16_t, 0x144> bytes{};
  bytes.fill(-1);
  int16_t next = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= 0x21 && byte <= 0x7E) ||
                     (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    bytes[printable ? byte : next++] = byte;
  }
  return bytes;
}

/// Appends what `text`, in the byte alphabet, stands for. A character outside
/// the alphabet stands for itself.
void appendDecoded(std::string_view text, std::string &out) {
  static constexpr auto alphabet = byteAlphabet();
  for (size_t i = 0; i < text.size();) {
    Utf8Unit unit = nextUtf8(text.substr(i, 4));
    uint32_t codePoint = unit.kind == Utf8Kind::Valid
                             ? decodeUtf8(&text[i], unit.length)
                             : UINT32_MAX;
    if (codePoint < alphabet.size() && alphabet[codePoint] >= 0)
      out += static_cast<char>(alphabet[codePoint]);
    else
      out.append(text, i, unit.length);
    i += unit.length;
  }
}

uint32_t hashBytes(std::string_view bytes) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(bytes));
}

} // namespace

StatusOr<BpeModel> BpeModel::create(const TokenizerSpec &spec) {
  // Each merge can add three symbols, each byte one.
  size_t mostSymbols = spec.tokens.size() + 3 * spec.merges.size() + 256;
  if (spec.tokens.empty() || mostSymbols > INT32_MAX)
    return Status(StatusCode::InvalidFile,
                  fmt::format("tokenizer.ggml.tokens has {} entries and "
                              "tokenizer.ggml.merges {}, which is {}",
                              spec.tokens.size(), spec.merges.size(),
                              spec.tokens.empty() ? "no vocabulary"
                                                  : "more than fits 32 bits"));
  BpeModel model;
  MOE_RETURN_IF_ERROR(model.addTokens(spec));
  MOE_RETURN_IF_ERROR(model.addMerges(spec.merges));
  model.addReplacement(spec);
  return model;
}

Status BpeModel::addTokens(const TokenizerSpec &spec) {
  vocabularySize_ = static_cast<int32_t>(spec.tokens.size());
  size_t tokenBytes = 0;
  for (const std::string &token : spec.tokens)
    tokenBytes += token.size();
  arena_.reserve(tokenBytes);
  offsets_.reserve(spec.tokens.size() + 257);
  offsets_.push_back(0);
  // Twice the symbols expected: tokens and bytes. intern() doubles it when
  // merges pass through many that are not tokens.
  symbolSlots_.assign(std::bit_ceil(2 * spec.tokens.size() + 512), {0, -1});

  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string &text = spec.tokens[id];
    auto type = spec.types.empty() ? TokenType::Normal
                                   : static_cast<TokenType>(spec.types[id]);
    bool isText = false; // Whether encoding text may produce it.
    switch (type) {
    case TokenType::Undefined:
    case TokenType::Normal:
      appendDecoded(text, arena_);
      isText = true;
      break;
    case TokenType::Byte:
      if (std::optional<uint8_t> byte = parseByteToken(text)) {
        arena_ += static_cast<char>(*byte);
        isText = true;
        break;
      }
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.tokens[{}] is a byte token, but its "
                          "text is '{}'; expected '<0x00>' to '<0xFF>'",
                          id, text)};
    case TokenType::Unknown:
    case TokenType::Control:
    case TokenType::UserDefined:
    case TokenType::Unused:
      arena_ += text;
      break;
    default:
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.token_type[{}] is {}; expected 0 "
                          "to 6",
                          id, spec.types[id])};
    }
    offsets_.push_back(arena_.size());
    std::string_view bytes = this->bytes(static_cast<int32_t>(id));
    if (!isText || bytes.empty())
      continue;
    uint32_t hash = hashBytes(bytes);
    SymbolSlot &slot = symbolSlots_[slotOf(bytes, hash)];
    if (slot.symbol < 0) // The first of several tokens of one text counts.
      slot = {hash, static_cast<int32_t>(id)};
  }

  for (unsigned byte = 0; byte < 256; ++byte) {
    char text = static_cast<char>(byte);
    byteSymbols_[byte] = intern({&text, 1});
  }
  return Status::ok();
}

Status BpeModel::addMerges(const std::vector<std::string> &merges) {
  pairSlots_.assign(std::bit_ceil(2 * merges.size() + 2), {noPair, 0});
  merges_.reserve(merges.size());
  std::string text;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    std::string_view merge = merges[rank];
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.merges[{}] is '{}'; expected two "
                          "texts with a space between",
                          rank, merge)};
    text.clear();
    appendDecoded(merge.substr(0, space), text);
    size_t leftBytes = text.size();
    appendDecoded(merge.substr(space + 1), text);
    std::string_view whole = text;
    int32_t left = intern(whole.substr(0, leftBytes));
    int32_t right = intern(whole.substr(leftBytes));
    merges_.push_back({left, right, intern(whole)});

    uint64_t pair = pairOf(left, right);
    size_t mask = pairSlots_.size() - 1;
    size_t slot = hashPair(pair) & mask;
    while (pairSlots_[slot].pair != noPair && pairSlots_[slot].pair != pair)
      slot = (slot + 1) & mask;
    if (pairSlots_[slot].pair ==
        noPair) // The first of two equal merges counts.
      pairSlots_[slot] = {pair, static_cast<uint32_t>(rank)};
  }
  return Status::ok();
}

void BpeModel::addReplacement(const TokenizerSpec &spec) {
  if (spec.unk) {
    replacement_ = {*spec.unk};
    return;
  }
  for (char byte : replacementCharacter)
    if (byteSymbols_[static_cast<uint8_t>(byte)] >= vocabularySize_)
      return;
  Scratch scratch;
  std::vector<int32_t> tokens;
  if (encodeWord(replacementCharacter, scratch, tokens))
    replacement_ = std::move(tokens);
}

size_t BpeModel::slotOf(std::string_view bytes, uint32_t hash) const {
  size_t mask = symbolSlots_.size() - 1;
  size_t i = hash & mask;
  while (symbolSlots_[i].symbol >= 0 &&
         (symbolSlots_[i].hash != hash ||
          this->bytes(symbolSlots_[i].symbol) != bytes))
    i = (i + 1) & mask;
  return i;
}

int32_t BpeModel::find(std::string_view bytes) const {
  int32_t symbol = symbolSlots_[slotOf(bytes, hashBytes(bytes))].symbol;
  return symbol < vocabularySize_ ? symbol : -1;
}

/// The symbol of `bytes`, made if there is none.
int32_t BpeModel::intern(std::string_view bytes) {
  uint32_t hash = hashBytes(bytes);
  if (int32_t known = symbolSlots_[slotOf(bytes, hash)].symbol; known >= 0)
    return known;
  if (2 * offsets_.size() >= symbolSlots_.size()) {
    std::vector<SymbolSlot> old(2 * symbolSlots_.size(), {0, -1});
    old.swap(symbolSlots_);
    for (const SymbolSlot &slot : old)
      if (slot.symbol >= 0)
        symbolSlots_[slotOf(this->bytes(slot.symbol), slot.hash)] = slot;
  }
  int32_t symbol = static_cast<int32_t>(offsets_.size() - 1);
  symbolSlots_[slotOf(bytes, hash)] = {hash, symbol};
  arena_ += bytes;
  offsets_.push_back(arena_.size());
  return symbol;
}

uint32_t BpeModel::rankOf(int32_t left, int32_t right) const {
  uint64_t pair = pairOf(left, right);
  size_t mask = pairSlots_.size() - 1;
  for (size_t i = hashPair(pair) & mask;; i = (i + 1) & mask) {
    if (pairSlots_[i].pair == pair)
      return pairSlots_[i].rank;
    if (pairSlots_[i].pair == noPair)
      return noRank;
  }
}

template <typename Queue>
void BpeModel::mergeAll(std::vector<Scratch::Node> &nodes, Queue &queue) const {
  queue.reset(merges_.size());
  auto offer = [&](uint32_t left, uint32_t right) {
    uint32_t rank = rankOf(nodes[left].symbol, nodes[right].symbol);
    if (rank != noRank)
      queue.push({rank, left});
  };
  for (uint32_t i = 0; i + 1 < nodes.size(); ++i)
    offer(i, i + 1);

  while (!queue.empty()) {
    MergeCandidate candidate = queue.pop();
    const Merge &merge = merges_[candidate.rank];
    Scratch::Node &left = nodes[candidate.position];
    // A candidate is stale once either neighbour has merged otherwise.
    if (left.symbol != merge.left || left.next == noNode ||
        nodes[left.next].symbol != merge.right)
      continue;
    Scratch::Node &right = nodes[left.next];
    left.symbol = merge.result;
    left.next = right.next;
    right.symbol = dead;
    if (left.next != noNode) {
      nodes[left.next].previous = candidate.position;
      offer(candidate.position, left.next);
    }
    if (left.previous != noNode)
      offer(left.previous, candidate.position);
  }
}

Status BpeModel::encodeByte(uint8_t byte, std::vector<int32_t> &out) const {
  if (int32_t symbol = byteSymbols_[byte]; symbol < vocabularySize_) {
    out.push_back(symbol);
    return Status::ok();
  }
  if (replacement_.empty())
    return {StatusCode::InvalidFile,
            fmt::format("the vocabulary has no token for byte 0x{:02X}, no "
                        "unknown token and none for U+FFFD",
                        byte)};
  out.insert(out.end(), replacement_.begin(), replacement_.end());
  return Status::ok();
}

Status BpeModel::encodeWord(std::string_view word, Scratch &scratch,
                            std::vector<int32_t> &out) const {
  if (word.size() == 1)
    return encodeByte(static_cast<uint8_t>(word[0]), out);

  auto &nodes = scratch.nodes;
  nodes.clear();
  nodes.reserve(word.size());
  for (uint32_t i = 0; i < word.size(); ++i)
    nodes.push_back(
        {byteSymbols_[static_cast<uint8_t>(word[i])], i - 1, i + 1});
  static_assert(uint32_t{0} - 1 == noNode, "the first node has no previous");
  nodes.back().next = noNode;

  if (word.size() < longWord)
    mergeAll(nodes, scratch.shortQueue);
  else
    mergeAll(nodes, scratch.longQueue);

  for (uint32_t i = 0; i != noNode; i = nodes[i].next) {
    int32_t symbol = nodes[i].symbol;
    if (symbol < vocabularySize_) {
      out.push_back(symbol);
      continue;
    }
    for (char byte : bytes(symbol))
      MOE_RETURN_IF_ERROR(encodeByte(static_cast<uint8_t>(byte), out));
  }
  return Status::ok();
}

} // namespace moert
