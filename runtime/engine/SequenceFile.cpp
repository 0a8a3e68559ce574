// Saves sequences to files and restores them.
//
// A file has a header, the token ids, the rows of each page of the sequence in
// every cache (KvPages::read) and, if the sequence has one, its state
// (StatePool::read). All numbers are little-endian. At the end is the XXH3-64
// over the XXH3-64 hashes of these parts. Rows after the last token are
// undefined. A sequence that had lost its state, and whose tokens were not all
// evaluated again, is saved without a state and may have fewer pages.
#include "runtime/base/CheckedMath.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/Text.h"
#include "runtime/engine/Engine.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <bit>

namespace moert {

namespace {
static_assert(std::endian::native == std::endian::little);

struct Header {
  char magic[8] = {'M', 'O', 'E', 'R', 'T', 'S', 'E', 'Q'};
  uint32_t version = 2;
  uint32_t tokens = 0;
  /// Fingerprint of the plan that the sequence was made with.
  uint64_t plan = 0;
  uint64_t pageBytes = 0; ///< Bytes of a page over all caches.
  uint64_t pages = 0;
  uint64_t stateBytes = 0; ///< Bytes of the state over all layers; 0: no state.
};

template <class T> std::span<const uint8_t> bytesOf(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t *>(values.data()),
          values.size_bytes()};
}

/// Hash over the hashes of all parts.
class Digest {
public:
  void add(std::span<const uint8_t> part) { hashes_.push_back(hash64({part})); }
  uint64_t value() const {
    return hash64({bytesOf(std::span<const uint64_t>(hashes_))});
  }

private:
  std::vector<uint64_t> hashes_;
};

/// Reads the bytes of a file from front to back.
class Reader {
public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  /// Returns the next `count` bytes, which must be available.
  std::span<const uint8_t> take(size_t count) {
    std::span<const uint8_t> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <class T> T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

private:
  std::span<const uint8_t> bytes_;
};

Status damaged(std::string_view how) {
  return invalidPlan("is damaged: {}; delete it and start a new session", how);
}
} // namespace

Status Sequence::save(const std::string &path) const {
  MOE_ASSIGN_OR_RETURN(OutputTarget target,
                       engine_->outputRule(/*force=*/false, /*forceWord=*/"")
                           .target(path, OutputKind::Session));
  return save(std::move(target));
}

uint64_t Sequence::savedBytes() const {
  return sizeof(Header) + sizeof(uint64_t) + tokens_.size() * sizeof(int32_t) +
         pages_.size() * engine_->kvPages_.bytes() +
         (state_ != StatePool::kNone ? engine_->states_->bytes() : 0);
}

Status Sequence::save(OutputTarget target) const {
  MOE_ASSIGN_OR_RETURN(
      OutputFile file,
      OutputFile::create(std::move(target), OutputFile::Content::Binary));
  MOE_RETURN_IF_ERROR(write([&](std::span<const uint8_t> part) {
    return file.write(part.data(), part.size());
  }));
  return file.commit();
}

Status Sequence::write(
    const std::function<Status(std::span<const uint8_t>)> &out) const {
  const KvPages &pages = engine_->kvPages_;
  Header header;
  header.tokens = uint32_t(tokens_.size());
  header.plan = engine_->plan_.fingerprint();
  header.pageBytes = pages.bytes();
  header.pages = pages_.size();
  if (state_ != StatePool::kNone)
    header.stateBytes = engine_->states_->bytes();
  Digest digest;
  auto write = [&](std::span<const uint8_t> part) {
    digest.add(part);
    return out(part);
  };
  MOE_RETURN_IF_ERROR(write(bytesOf(std::span<const Header>(&header, 1))));
  MOE_RETURN_IF_ERROR(write(bytesOf(std::span<const int32_t>(tokens_))));
  std::vector<uint8_t> content(pages.bytes());
  for (int32_t page : pages_) {
    MOE_RETURN_IF_ERROR(
        pages.read(page, reinterpret_cast<std::byte *>(content.data())));
    MOE_RETURN_IF_ERROR(write(content));
  }
  if (state_ != StatePool::kNone) {
    std::vector<uint8_t> state(header.stateBytes);
    MOE_RETURN_IF_ERROR(engine_->states_->read(
        state_, reinterpret_cast<std::byte *>(state.data())));
    MOE_RETURN_IF_ERROR(write(state));
  }
  const uint64_t sum = digest.value();
  return out(bytesOf(std::span<const uint64_t>(&sum, 1)));
}

/// Fails unless `bytes` begin with the header of a sequence that was saved with
/// this plan. `pageBytes` is the size of a page over all of the plan's caches.
static Status checkHeader(std::span<const uint8_t> bytes, const Plan &plan,
                          uint64_t pageBytes) {
  if (bytes.size() < sizeof(Header) ||
      std::memcmp(bytes.data(), Header().magic, sizeof(Header::magic)) != 0)
    return invalidPlan("is not a sequence that moert saved");
  auto header = Reader(bytes).take<Header>();
  if (header.version != Header().version)
    return Status(StatusCode::WrongMachine,
                  fmt::format("has version {}, this moert reads version {}; "
                              "delete it and start a new session",
                              header.version, Header().version));
  if (header.plan == plan.fingerprint() && header.pageBytes == pageBytes)
    return Status::ok();
  return Status(StatusCode::WrongMachine,
                plan.chosen() == 0
                    ? fmt::format("was saved with another plan than {}; use "
                                  "that plan, or delete the file to start a "
                                  "new session",
                                  plan.path())
                    : fmt::format("was saved with another plan or rung than "
                                  "{} of {}; use that one (--rung), or "
                                  "delete the file to start a new session",
                                  plan.rungName(), plan.path()));
}

/// The parts of a saved sequence that Engine::checkSaved() has accepted.
struct SavedParts {
  explicit SavedParts(std::span<const uint8_t> bytes, uint64_t stateBytes) {
    Reader reader(bytes);
    const auto header = reader.take<Header>();
    tokens.resize(header.tokens);
    std::memcpy(tokens.data(),
                reader.take(header.tokens * sizeof(int32_t)).data(),
                header.tokens * sizeof(int32_t));
    for (uint64_t i = 0; i < header.pages; ++i)
      pages.push_back(reader.take(header.pageBytes));
    state = reader.take(stateBytes == 0 ? 0 : header.stateBytes);
  }

  std::vector<int32_t> tokens;
  std::vector<std::span<const uint8_t>> pages;
  std::span<const uint8_t> state;
};

Status Engine::checkSaved(std::span<const uint8_t> bytes) const {
  MOE_RETURN_IF_ERROR(checkHeader(bytes, plan_, kvPages_.bytes()));
  Reader reader(bytes);
  auto header = reader.take<Header>();
  uint64_t pages =
      (uint64_t(header.tokens) + moek::kKvPage - 1) / moek::kKvPage;
  uint64_t stateBytes = states_ ? states_->bytes() : 0;
  if (states_ && header.stateBytes == 0) {
    stateBytes = 0;
    pages = std::min(pages, header.pages);
  }
  if (header.pages != pages || header.stateBytes != stateBytes)
    return damaged(fmt::format("it holds {} pages and {} bytes of state, and "
                               "should hold {} and {}",
                               header.pages, header.stateBytes, pages,
                               stateBytes));
  Checked size = Checked(uint64_t(sizeof(Header) + sizeof(uint64_t))) +
                 Checked(uint64_t(header.tokens)) * Checked(uint64_t(4)) +
                 Checked(pages) * Checked(header.pageBytes) +
                 Checked(stateBytes);
  if (!size.valid() || size.value() != bytes.size())
    return damaged(fmt::format("it holds {} bytes and should hold {}",
                               bytes.size(),
                               size.valid() ? size.value() : UINT64_MAX));
  if (header.tokens > uint32_t(context_))
    return damaged(fmt::format("it holds {}, and the context is {}",
                               counted(header.tokens, "token"), context_));

  const SavedParts parts(bytes, stateBytes);
  Digest digest;
  digest.add(bytes.first(sizeof(Header)));
  digest.add(bytesOf(std::span<const int32_t>(parts.tokens)));
  for (std::span<const uint8_t> page : parts.pages)
    digest.add(page);
  if (stateBytes > 0)
    digest.add(parts.state);
  if (digest.value() != Reader(bytes.last(sizeof(uint64_t))).take<uint64_t>())
    return damaged("its checksum is not that of its content");
  for (int32_t token : parts.tokens)
    if (token < 0 || token >= vocab_)
      return damaged(fmt::format("token {} is outside the vocabulary of {}",
                                 token, vocab_));
  return Status::ok();
}

Status Engine::load(std::span<const uint8_t> bytes, Sequence &sequence) {
  SavedParts parts(bytes, states_ ? states_->bytes() : 0);
  takePrefix(sequence, parts.tokens);
  for (size_t i = sequence.pages_.size(); i < parts.pages.size(); ++i) {
    std::optional<int32_t> page = pool_->allocate();
    if (!page) {
      sequence.trim();
      return poolIsFull();
    }
    sequence.pages_.push_back(*page);
    if (Status written = kvPages_.write(
            *page, reinterpret_cast<const std::byte *>(parts.pages[i].data()));
        !written.isOk()) {
      sequence.trim();
      return written;
    }
  }
  // A sequence without a slot, or a file without a state: restoreState() makes
  // it later.
  sequence.dropState();
  if (!parts.state.empty())
    sequence.state_ = states_->allocate();
  if (sequence.state_ != StatePool::kNone) {
    MOE_RETURN_IF_ERROR(states_->write(
        sequence.state_,
        reinterpret_cast<const std::byte *>(parts.state.data())));
    states_->assume(sequence.state_, int32_t(parts.tokens.size()));
  }
  sequence.tokens_ = std::move(parts.tokens);
  publish(sequence);
  return Status::ok();
}

StatusOr<std::vector<int32_t>>
Engine::savedTokens(const std::string &path) const {
  MOE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  std::vector<uint8_t> start(std::min(file.size(), uint64_t(sizeof(Header))));
  MOE_RETURN_IF_ERROR(file.readAt(0, start.data(), start.size()));
  MOE_RETURN_IF_ERROR(
      checkHeader(start, plan_, kvPages_.bytes()).at(inputName(path)));
  const auto header = Reader(start).take<Header>();
  if (header.tokens > uint32_t(context_))
    return damaged(fmt::format("it holds {}, and the context is {}",
                               counted(header.tokens, "token"), context_))
        .at(inputName(path));
  if (file.size() < sizeof(Header) + header.tokens * sizeof(int32_t))
    return damaged("it ends before its tokens do").at(inputName(path));
  std::vector<int32_t> tokens(header.tokens);
  MOE_RETURN_IF_ERROR(file.readAt(sizeof(Header), tokens.data(),
                                  tokens.size() * sizeof(int32_t)));
  return tokens;
}

StatusOr<SavedSequence> Engine::readSaved(const std::string &path) const {
  // A sequence has at most the pool's pages and one state.
  uint64_t most = sizeof(Header) + sizeof(uint64_t) +
                  uint64_t(context_) * sizeof(int32_t) +
                  uint64_t(kvPagesOf(context_)) * kvPages_.bytes() +
                  (states_ ? states_->bytes() : 0);
  // A file of another plan may be longer; its header is checked first.
  auto checkStart = [&](std::string_view start) {
    return checkHeader(
               {reinterpret_cast<const uint8_t *>(start.data()), start.size()},
               plan_, kvPages_.bytes())
        .at(inputName(path));
  };
  constexpr uint64_t kStart = uint64_t(1)
                              << 16; // Number of bytes that checkStart() sees.
  SavedSequence saved;
  MOE_ASSIGN_OR_RETURN(saved.bytes_,
                       readInput(path, std::max(most, kStart), checkStart));
  MOE_RETURN_IF_ERROR(checkSaved(saved.bytes()).at(inputName(path)));
  return saved;
}

StatusOr<Sequence> Engine::restore(const SavedSequence &saved,
                                   SequenceOptions options) {
  Sequence sequence(*this, options);
  MOE_RETURN_IF_ERROR(load(saved.bytes(), sequence));
  return sequence;
}

StatusOr<Sequence> Engine::restore(const std::string &path,
                                   SequenceOptions options) {
  MOE_ASSIGN_OR_RETURN(SavedSequence saved, readSaved(path));
  return restore(saved, options);
}

} // namespace moert
