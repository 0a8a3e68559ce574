#include "runtime/serve/PrefixStore.h"

#include "runtime/base/ContentHash.h"
#include "runtime/base/PrivateFiles.h"
#include "runtime/base/Temporaries.h"
#include "runtime/serve/KeptSequences.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>

namespace moert {

namespace fs = std::filesystem;

namespace {
constexpr std::string_view kSuffix = ".moeseq";
constexpr size_t kHash = 16; ///< Digits of a hash in a name.

bool isHash(std::string_view digits) {
  return digits.size() == kHash &&
         digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

/// Whether this is the name of a file of a store.
bool isStored(std::string_view name) {
  return name.size() == 2 * kHash + 1 + kSuffix.size() &&
         isHash(name.substr(0, kHash)) && name[kHash] == '-' &&
         isHash(name.substr(kHash + 1, kHash)) && name.ends_with(kSuffix);
}

/// The name whose temporary file this is (Temporaries.h); "" if it is none.
std::string_view nameOfTemporary(std::string_view name) {
  const size_t length = 2 * kHash + 1 + kSuffix.size();
  if (!name.starts_with('.') || name.size() <= length)
    return "";
  name = name.substr(1, length);
  return isStored(name) ? name : "";
}

std::string prefixOf(const Engine &engine) {
  return fmt::format("{:016x}-", engine.plan().fingerprint());
}

/// A group's name ends before the first token: its letters are no token's
/// number.
std::string nameOf(const Engine &engine, const std::string &group,
                   std::span<const int32_t> tokens) {
  const uint64_t hash =
      hash64({{reinterpret_cast<const uint8_t *>(group.data()), group.size()},
              {reinterpret_cast<const uint8_t *>(tokens.data()),
               tokens.size_bytes()}});
  return fmt::format("{}{:016x}{}", prefixOf(engine), hash, kSuffix);
}

struct StoredFile {
  std::string name;
  uint64_t bytes;
  fs::file_time_type used;
};

/// The files of all plans. Others may be adding and removing some meanwhile.
std::vector<StoredFile> filesIn(const std::string &folder) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    StoredFile file{it->path().filename().string(), 0, {}};
    std::error_code gone;
    if (!isStored(file.name) || !it->is_regular_file(gone))
      continue;
    file.bytes = it->file_size(gone);
    if (!gone)
      file.used = it->last_write_time(gone);
    if (!gone)
      files.push_back(std::move(file));
  }
  return files;
}
} // namespace

StatusOr<std::unique_ptr<PrefixStore>>
PrefixStore::open(Engine &engine, std::string folder, uint64_t maxBytes,
                  std::function<void()> onRead) {
  MOE_RETURN_IF_ERROR(makePrivateFolder(folder, [](std::string_view name) {
    return isStored(name) || !nameOfTemporary(name).empty();
  }));
  std::unique_ptr<PrefixStore> store(
      new PrefixStore(engine, std::move(folder), maxBytes, std::move(onRead)));
  MOE_RETURN_IF_ERROR(store->readFolder());
  store->makeRoom(0);
  return store;
}

Status PrefixStore::readFolder() {
  std::error_code error;
  std::vector<std::string> stale;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error))
    if (std::string name = it->path().filename().string();
        !nameOfTemporary(name).empty())
      stale.emplace_back(nameOfTemporary(name));
  if (error)
    return Status(StatusCode::Io,
                  fmt::format("{}: {}", folder_, error.message()));
  for (const std::string &name : stale)
    removeStaleTemporaries(folder_, name);
  std::vector<StoredFile> files = filesIn(folder_);
  std::ranges::sort(files, {}, &StoredFile::used);
  for (StoredFile &file : files) {
    MOE_RETURN_IF_ERROR(makePrivateFile(pathOf(file.name)));
    if (!file.name.starts_with(prefixOf(engine_)))
      continue;
    auto tokens = engine_.savedTokens(pathOf(file.name));
    if (tokens)
      entries_.push_back({std::move(file.name), *std::move(tokens)});
    else if (tokens.status().code() == StatusCode::InvalidFile)
      remove(file.name);
  }
  return Status::ok();
}

int32_t PrefixStore::usable(const Entry &entry,
                            std::span<const int32_t> text) const {
  const std::span<const int32_t> prefix = text.first(text.size() - 1);
  auto shared = std::ranges::mismatch(entry.tokens, prefix).in1;
  // A state is that after the last token: there is none in the middle.
  if (engine_.stateSlots() > 0 && shared != entry.tokens.end())
    return 0;
  return int32_t(shared - entry.tokens.begin());
}

std::vector<PrefixStore::Entry>::const_iterator
PrefixStore::best(std::span<const int32_t> text,
                  const std::string &group) const {
  auto best = entries_.end();
  int32_t most = 0;
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (int32_t tokens = usable(*it, text);
        tokens > most && it->name == nameOf(engine_, group, it->tokens)) {
      best = it;
      most = tokens;
    }
  return best;
}

int32_t PrefixStore::find(std::span<const int32_t> text,
                          const std::string &group) const {
  auto entry = best(text, group);
  return entry == entries_.end() ? 0 : usable(*entry, text);
}

int32_t PrefixStore::pagesToRestore(std::span<const int32_t> text,
                                    const std::string &group) const {
  auto entry = best(text, group);
  return entry == entries_.end() ? 0 : pagesOf(int64_t(entry->tokens.size()));
}

StatusOr<Sequence> PrefixStore::restore(std::span<const int32_t> text,
                                        const std::string &group,
                                        SequenceOptions options) {
  auto entry = best(text, group);
  if (entry == entries_.end())
    return Status(StatusCode::Usage, "no file holds a beginning of the text");
  const int32_t tokens = usable(*entry, text);
  const std::string name = entry->name;
  Read read = std::exchange(read_, {});
  if (read.name != name)
    read.content = engine_.readSaved(pathOf(name));
  StatusOr<Sequence> sequence =
      *read.content ? engine_.restore(**read.content, options)
                    : StatusOr<Sequence>(read.content->status());
  if (!sequence) {
    if (sequence.status().code() == StatusCode::InvalidFile)
      remove(name);
    if (sequence.status().code() != StatusCode::DoesNotFit)
      entries_.erase(entry);
    return sequence;
  }
  std::error_code ignored;
  fs::last_write_time(pathOf(name), fs::file_time_type::clock::now(), ignored);
  MOE_RETURN_IF_ERROR(sequence->rewind(tokens));
  return sequence;
}

bool PrefixStore::isReady(std::span<const int32_t> text,
                          const std::string &group, uint64_t readAtOnce) {
  auto entry = best(text, group);
  if (entry == entries_.end() || entry->name == read_.name)
    return true;
  std::error_code gone;
  const uint64_t bytes = fs::file_size(pathOf(entry->name), gone);
  if (gone || bytes <= readAtOnce)
    return true;
  if (!reader_.isBusy()) {
    reading_ = entry->name;
    reader_.read(pathOf(reading_));
  }
  return false;
}

void PrefixStore::takeRead() {
  if (auto result = reader_.takeResult())
    read_ = {std::move(reading_), std::move(result)};
}

std::string PrefixStore::prepare(const Sequence &sequence,
                                 const std::string &group) {
  std::string name = nameOf(engine_, group, sequence.tokens());
  const bool isKnown = std::ranges::any_of(
      entries_, [&](const Entry &entry) { return entry.name == name; });
  if (isKnown || sequence.savedBytes() > maxBytes_)
    return "";
  makeRoom(sequence.savedBytes());
  return name;
}

void PrefixStore::added(Entry added, const std::string &group) {
  // A text that goes on replaces its beginning, except where that could not be
  // taken from it.
  if (engine_.stateSlots() == 0)
    std::erase_if(entries_, [&](const Entry &entry) {
      auto differs = std::ranges::mismatch(entry.tokens, added.tokens).in1;
      if (differs != entry.tokens.end() ||
          entry.name != nameOf(engine_, group, entry.tokens))
        return false;
      remove(entry.name);
      return true;
    });
  entries_.push_back(std::move(added));
}

Status PrefixStore::save(const Sequence &sequence, const std::string &group) {
  const std::span<const int32_t> tokens = sequence.tokens();
  std::string name = prepare(sequence, group);
  if (name.empty())
    return Status::ok();
  MOE_RETURN_IF_ERROR(
      sequence.save(OutputTarget::ofCache(pathOf(name)).forOwnerOnly()));
  added({std::move(name), {tokens.begin(), tokens.end()}}, group);
  return Status::ok();
}

Status PrefixStore::saveBehind(const Sequence &sequence,
                               const std::string &group) {
  const std::span<const int32_t> tokens = sequence.tokens();
  std::string name = prepare(sequence, group);
  if (name.empty())
    return Status::ok();
  std::vector<uint8_t> content;
  content.reserve(sequence.savedBytes());
  MOE_RETURN_IF_ERROR(sequence.write([&](std::span<const uint8_t> part) {
    content.insert(content.end(), part.begin(), part.end());
    return Status::ok();
  }));
  writer_.write(pathOf(name), std::move(content));
  written_ = {std::move(name), {tokens.begin(), tokens.end()}};
  writtenGroup_ = group;
  return Status::ok();
}

Status PrefixStore::finish(bool wait) {
  std::optional<Status> result = writer_.takeResult(wait);
  if (result && result->isOk())
    added(std::exchange(written_, {}), writtenGroup_);
  return result.value_or(Status::ok());
}

uint64_t PrefixStore::bytes() const {
  uint64_t sum = 0;
  for (const StoredFile &file : filesIn(folder_))
    sum += file.bytes;
  return sum;
}

void PrefixStore::remove(const std::string &name) {
  std::error_code ignored;
  fs::remove(pathOf(name), ignored);
}

void PrefixStore::makeRoom(uint64_t more) {
  std::vector<StoredFile> files = filesIn(folder_);
  std::ranges::sort(files, {}, &StoredFile::used);
  uint64_t sum = more;
  for (const StoredFile &file : files)
    sum += file.bytes;
  for (const StoredFile &file : files) {
    if (sum <= maxBytes_)
      break;
    remove(file.name);
    sum -= file.bytes;
    std::erase_if(entries_,
                  [&](const Entry &entry) { return entry.name == file.name; });
  }
}

} // namespace moert
