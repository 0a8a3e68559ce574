//===- BpeModel.cpp -------------------------------------------------------===//

#include "runtime/text/BpeModel.h"

#include "runtime/base/Text.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace moert {
namespace {

constexpr uint64_t noPair = UINT64_MAX;
constexpr uint32_t noNode = UINT32_MAX;
constexpr int32_t dead = -1;
/// A character that no token and no merge contains.
constexpr int32_t unknownSymbol = -2;
/// Length in bytes from which the bucket queue is faster: its cheaper
/// operations then outweigh its per-word cost (a table of all ranks).
constexpr size_t longWord = 4096;

uint64_t symbolPair(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
         static_cast<uint32_t>(right);
}

size_t hashPair(uint64_t pair) {
  // Fibonacci hashing: the high bits of the product depend on all of `pair`.
  return (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u >> 32;
}

/// GPT-2's alphabet: bytes that are printable in Latin-1 represent themselves;
/// the other 68 are represented by U+0100 onwards, in ascending order.
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

/// Appends the bytes that `text`, in the byte alphabet, represents. A character
/// outside the alphabet represents itself.
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

/// Appends `text` with each U+2581 replaced by a space.
void appendSpaces(std::string_view text, std::string &out) {
  for (size_t mark; (mark = text.find(spaceMark)) != std::string_view::npos;) {
    out.append(text, 0, mark);
    out += ' ';
    text.remove_prefix(mark + spaceMark.size());
  }
  out += text;
}

/// Returns the index of `symbols` in the table, or of the empty slot for them.
template <typename Pair>
size_t pairSlot(const std::vector<Pair> &pairs, uint64_t symbols) {
  size_t mask = pairs.size() - 1;
  size_t i = hashPair(symbols) & mask;
  while (pairs[i].symbols != symbols && pairs[i].symbols != noPair)
    i = (i + 1) & mask;
  return i;
}

uint32_t hashBytes(std::string_view bytes) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(bytes));
}

} // namespace

StatusOr<BpeModel> BpeModel::create(const TokenizerSpec &spec) {
  // Each merge adds at most three symbols, and each byte one.
  size_t mostSymbols = spec.tokens.size() + 3 * spec.merges.size() + 256;
  if (spec.tokens.empty() || mostSymbols > INT32_MAX)
    return Status(StatusCode::InvalidFile,
                  fmt::format("tokenizer.ggml.tokens has {} entries and "
                              "tokenizer.ggml.merges {}, which is {}",
                              spec.tokens.size(), spec.merges.size(),
                              spec.tokens.empty() ? "no vocabulary"
                                                  : "more than fits 32 bits"));
  BpeModel model;
  bool isSpaceMarked = spec.model == "llama" || spec.model == "gemma4";
  model.alphabet_ = isSpaceMarked ? Alphabet::Characters : Alphabet::Bytes;
  MOE_RETURN_IF_ERROR(model.addTokens(spec));
  if (spec.model == "llama")
    MOE_RETURN_IF_ERROR(model.addPairsByScore(spec));
  else
    MOE_RETURN_IF_ERROR(model.addMerges(spec.merges));
  model.addReplacement(spec);
  return model;
}

/// Appends the readable form of `text`, which is spelled as in model files.
void BpeModel::appendReadable(std::string_view text, std::string &out) const {
  if (alphabet_ == Alphabet::Bytes)
    appendDecoded(text, out);
  else
    appendSpaces(text, out);
}

Status BpeModel::addTokens(const TokenizerSpec &spec) {
  vocabularySize_ = static_cast<int32_t>(spec.tokens.size());
  size_t tokenBytes = 0;
  for (const std::string &token : spec.tokens)
    tokenBytes += token.size();
  arena_.reserve(tokenBytes);
  offsets_.reserve(spec.tokens.size() + 257);
  offsets_.push_back(0);
  // Room for twice the expected symbols, tokens and bytes. intern() doubles it
  // if merges have many symbols that are not tokens.
  symbolSlots_.assign(std::bit_ceil(2 * spec.tokens.size() + 512), {0, -1});
  byteTokens_.fill(-1);
  bool isBytes = alphabet_ == Alphabet::Bytes;

  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string &text = spec.tokens[id];
    auto type = spec.types.empty() ? TokenType::Normal
                                   : static_cast<TokenType>(spec.types[id]);
    bool isText = false; // Whether merging may produce the token.
    switch (type) {
    case TokenType::Undefined:
    case TokenType::Normal:
      appendReadable(text, arena_);
      // Text has U+2581 for each space, so a token with a space never matches.
      isText = isBytes || text.find(' ') == std::string::npos;
      break;
    case TokenType::Byte:
      if (std::optional<uint8_t> byte = parseByteToken(text)) {
        arena_ += static_cast<char>(*byte);
        isText = isBytes;
        if (byteTokens_[*byte] < 0)
          byteTokens_[*byte] = static_cast<int32_t>(id);
        break;
      }
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.tokens[{}] is a byte token, but its "
                          "text is {}; expected '<0x00>' to '<0xFF>'",
                          id, quoted(text))};
    case TokenType::UserDefined:
      if (isBytes)
        arena_ += text;
      else
        appendSpaces(text, arena_);
      break;
    case TokenType::Unknown:
    case TokenType::Control:
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
    if (slot.symbol < 0) // The first of several tokens with equal text is used.
      slot = {hash, static_cast<int32_t>(id)};
  }

  for (unsigned byte = 0; byte < 256; ++byte) {
    char text = static_cast<char>(byte);
    // Bytes above 0x7F are not characters.
    byteSymbols_[byte] =
        isBytes || byte < 0x80 ? intern({&text, 1}) : unknownSymbol;
    if (isBytes && byteSymbols_[byte] < vocabularySize_)
      byteTokens_[byte] = byteSymbols_[byte];
  }
  return Status::ok();
}

void BpeModel::addPair(const Pair &pair) {
  // The table is at most half full.
  if (2 * ++pairCount_ > pairs_.size()) {
    std::vector<Pair> old(std::max<size_t>(2 * pairs_.size(), 1024),
                          {noPair, 0, 0});
    old.swap(pairs_);
    for (const Pair &moved : old)
      if (moved.symbols != noPair)
        pairs_[pairSlot(pairs_, moved.symbols)] = moved;
  }
  const std::string_view whole = bytes(pair.joined);
  for (size_t at = whole.find(' ', 1); at != whole.npos;
       at = whole.find(' ', at + 1))
    mergesIntoBlanks_ |= whole[at - 1] != ' ';
  Pair &slot = pairs_[pairSlot(pairs_, pair.symbols)];
  if (slot.symbols == noPair) // The first of two equal pairs is used.
    slot = pair;
}

Status BpeModel::addMerges(const std::vector<std::string> &merges) {
  pairs_.assign(std::bit_ceil(2 * merges.size() + 2), {noPair, 0, 0});
  rankCount_ = static_cast<uint32_t>(merges.size());
  std::string text;
  for (uint32_t rank = 0; rank < rankCount_; ++rank) {
    std::string_view merge = merges[rank];
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.merges[{}] is {}; expected two "
                          "texts with a space between",
                          rank, quoted(merge))};
    text.clear();
    appendReadable(merge.substr(0, space), text);
    size_t leftBytes = text.size();
    appendReadable(merge.substr(space + 1), text);
    std::string_view whole = text;
    int32_t left = intern(whole.substr(0, leftBytes));
    int32_t right = intern(whole.substr(leftBytes));
    addPair({symbolPair(left, right), rank, intern(whole)});
  }
  return Status::ok();
}

Status BpeModel::addPairsByScore(const TokenizerSpec &spec) {
  if (spec.scores.empty())
    return {StatusCode::InvalidFile,
            "tokenizer.ggml.scores is missing, by which a vocabulary of model "
            "llama merges"};
  // Bounds the work: every token is looked up at each of its characters.
  constexpr uint64_t mostWork = uint64_t{1} << 30;
  uint64_t work = 0;
  std::vector<int32_t> byScore;
  for (int32_t id = 0; id < vocabularySize_; ++id) {
    if (std::isnan(spec.scores[id]))
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.scores[{}] is not a number", id)};
    uint64_t size = bytes(id).size();
    work += size * size;
    if (work > mostWork)
      return {StatusCode::InvalidFile,
              fmt::format("tokenizer.ggml.tokens up to {} are too long for a "
                          "vocabulary; the last has {} bytes",
                          id, size)};
    if (find(bytes(id)) == id)
      byScore.push_back(id);
  }
  std::ranges::stable_sort(byScore, std::greater{},
                           [&](int32_t id) { return spec.scores[id]; });
  // Tokens of equal score have equal rank; the leftmost pair then goes first.
  for (size_t i = 0; i < byScore.size(); ++i) {
    if (i > 0 && spec.scores[byScore[i]] != spec.scores[byScore[i - 1]])
      ++rankCount_;
    addPairsOf(byScore[i], rankCount_);
  }
  ++rankCount_;
  return Status::ok();
}

/// Adds all pairs of symbols whose concatenation is `token`. A symbol is a
/// token or one character.
void BpeModel::addPairsOf(int32_t token, uint32_t rank) {
  // A copy, because intern() may move the arena.
  std::string text(bytes(token));
  if (validUtf8Prefix(text) != text.size())
    return; // Text never contains such a token.
  auto symbol = [&](std::string_view part) {
    bool isCharacter = nextUtf8(part.substr(0, 4)).length == part.size();
    return isCharacter ? intern(part) : symbolOf(part);
  };
  std::string_view whole = text;
  for (size_t cut = nextUtf8(whole.substr(0, 4)).length; cut < whole.size();
       cut += nextUtf8(whole.substr(cut, 4)).length) {
    int32_t left = symbol(whole.substr(0, cut));
    int32_t right = symbol(whole.substr(cut));
    if (left >= 0 && right >= 0)
      addPair({symbolPair(left, right), rank, token});
  }
}

void BpeModel::addReplacement(const TokenizerSpec &spec) {
  if (spec.unk) {
    replacement_ = {*spec.unk};
    return;
  }
  for (char byte : replacementCharacter)
    if (byteTokens_[static_cast<uint8_t>(byte)] < 0)
      return;
  Scratch scratch;
  std::vector<int32_t> tokens;
  if (encodeWord(replacementCharacter, scratch, tokens))
    replacement_ = std::move(tokens);
}

bool BpeModel::joinsUnknown() const {
  return alphabet_ == Alphabet::Characters &&
         std::ranges::any_of(byteTokens_,
                             [](int32_t token) { return token < 0; });
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

int32_t BpeModel::symbolOf(std::string_view bytes) const {
  return symbolSlots_[slotOf(bytes, hashBytes(bytes))].symbol;
}

int32_t BpeModel::find(std::string_view bytes) const {
  int32_t symbol = symbolOf(bytes);
  return symbol < vocabularySize_ ? symbol : -1;
}

/// Returns the symbol of `bytes`, which is created if it does not exist.
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

const BpeModel::Pair *BpeModel::pairOf(int32_t left, int32_t right) const {
  if (left < 0 || right < 0 || pairs_.empty())
    return nullptr;
  const Pair &pair = pairs_[pairSlot(pairs_, symbolPair(left, right))];
  return pair.symbols == noPair ? nullptr : &pair;
}

template <typename Queue>
Status BpeModel::mergeAll(std::vector<Scratch::Node> &nodes, Queue &queue,
                          const Deadline &deadline) const {
  constexpr size_t often = 4096;
  size_t steps = 0;
  auto mayGoOn = [&] {
    return ++steps % often == 0 ? deadline.check("cutting a long word into "
                                                 "tokens")
                                : Status::ok();
  };
  queue.reset(rankCount_);
  auto offer = [&](uint32_t left, uint32_t right) {
    if (const Pair *pair = pairOf(nodes[left].symbol, nodes[right].symbol))
      queue.push({pair->rank, left});
  };
  for (uint32_t i = 0; nodes[i].next != noNode; i = nodes[i].next) {
    MOE_RETURN_IF_ERROR(mayGoOn());
    offer(i, nodes[i].next);
  }
  while (!queue.empty()) {
    MOE_RETURN_IF_ERROR(mayGoOn());
    MergeCandidate candidate = queue.pop();
    Scratch::Node &left = nodes[candidate.position];
    if (left.next == noNode)
      continue;
    // A candidate is stale if one of the neighbours has been merged meanwhile.
    Scratch::Node &right = nodes[left.next];
    const Pair *pair = pairOf(left.symbol, right.symbol);
    if (!pair || pair->rank != candidate.rank)
      continue;
    left.symbol = pair->joined;
    left.next = right.next;
    right.symbol = dead;
    if (left.next != noNode) {
      nodes[left.next].previous = candidate.position;
      offer(candidate.position, left.next);
    }
    if (left.previous != noNode)
      offer(left.previous, candidate.position);
  }
  return Status::ok();
}

Status BpeModel::encodeByte(uint8_t byte, std::vector<int32_t> &out) const {
  if (int32_t token = byteTokens_[byte]; token >= 0) {
    out.push_back(token);
    return Status::ok();
  }
  if (replacement_.empty())
    return {StatusCode::InvalidFile,
            fmt::format("the vocabulary has no token for byte 0x{:02X}, no "
                        "unknown token and none for U+FFFD; leave such bytes "
                        "out, or work on token ids with moert logits",
                        byte)};
  out.insert(out.end(), replacement_.begin(), replacement_.end());
  return Status::ok();
}

/// Appends tokens for text that is not a token: those of its bytes. A character
/// of which some bytes lack a token becomes one unknown token, as do several
/// such characters in a row.
Status BpeModel::encodeUnmerged(std::string_view bytes,
                                std::vector<int32_t> &out) const {
  bool hasAll = std::ranges::all_of(bytes, [&](char byte) {
    return byteTokens_[static_cast<uint8_t>(byte)] >= 0;
  });
  if (alphabet_ == Alphabet::Characters && !hasAll && !replacement_.empty()) {
    if (out.empty() || out.back() != replacement_.back())
      out.insert(out.end(), replacement_.begin(), replacement_.end());
    return Status::ok();
  }
  for (char byte : bytes)
    MOE_RETURN_IF_ERROR(encodeByte(static_cast<uint8_t>(byte), out));
  return Status::ok();
}

void BpeModel::splitIntoSymbols(std::string_view word,
                                std::vector<Scratch::Node> &nodes) const {
  nodes.resize(word.size());
  uint32_t previous = noNode;
  for (uint32_t i = 0; i < word.size();) {
    auto byte = static_cast<uint8_t>(word[i]);
    int32_t symbol = byteSymbols_[byte];
    uint32_t length = 1;
    if (symbol == unknownSymbol) {
      length = nextUtf8(word.substr(i, 4)).length;
      symbol = symbolOf(word.substr(i, length));
    }
    nodes[i] = {symbol < 0 ? unknownSymbol : symbol, previous, i + length};
    previous = i;
    i += length;
  }
  nodes[previous].next = noNode;
}

Status BpeModel::encodeWord(std::string_view word, Scratch &scratch,
                            std::vector<int32_t> &out,
                            const Deadline &deadline) const {
  if (word.empty())
    return Status::ok();
  if (word.size() == 1 && alphabet_ == Alphabet::Bytes)
    return encodeByte(static_cast<uint8_t>(word[0]), out);

  auto &nodes = scratch.nodes;
  splitIntoSymbols(word, nodes);
  MOE_RETURN_IF_ERROR(word.size() < longWord
                          ? mergeAll(nodes, scratch.shortQueue, deadline)
                          : mergeAll(nodes, scratch.longQueue, deadline));

  for (uint32_t i = 0; i != noNode; i = nodes[i].next) {
    int32_t symbol = nodes[i].symbol;
    if (symbol >= 0 && symbol < vocabularySize_) {
      out.push_back(symbol);
      continue;
    }
    size_t end = std::min<size_t>(nodes[i].next, word.size());
    MOE_RETURN_IF_ERROR(encodeUnmerged(word.substr(i, end - i), out));
  }
  return Status::ok();
}

} // namespace moert
