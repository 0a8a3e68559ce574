// The keys of Security.h.

#include "runtime/base/ReadInput.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/serve/http/Security.h"
#include "runtime/serve/http/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

namespace moert {

namespace {
/// Maximum bytes of a key file: some 10,000 keys.
constexpr uint64_t kMostKeyFileBytes = uint64_t(1) << 20;
constexpr size_t kMostNameBytes = 64;

bool isName(std::string_view text) {
  return !text.empty() && text.size() <= kMostNameBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
         });
}

bool isKey(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > 0x20 && c < 0x7f;
  });
}

Status lineError(size_t line, std::string_view problem) {
  return Status(StatusCode::InvalidFile,
                fmt::format("line {}: {}", line, problem));
}
} // namespace

KeyRing::Hash KeyRing::hashOf(std::string_view key) {
  Hash hash;
  SHA256(reinterpret_cast<const unsigned char *>(key.data()), key.size(),
         hash.data());
  return hash;
}

std::string KeyRing::nameOf(const Hash &hash) {
  return fmt::format("key-{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2],
                     hash[3]);
}

bool KeyRing::has(const Hash &hash) const {
  return std::ranges::find(keys_, hash, &Key::hash) != keys_.end();
}

Status KeyRing::add(std::string_view key) {
  if (!isKey(key))
    return Status(StatusCode::Usage,
                  "--api-key: a key is printable ASCII without spaces");
  const Hash hash = hashOf(key);
  if (!has(hash))
    keys_.push_back({{nameOf(hash), nameOf(hash)}, hash});
  return Status::ok();
}

StatusOr<KeyRing> KeyRing::parse(std::string_view text) {
  KeyRing ring;
  size_t number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r'))
      line = trimmed(line.substr(0, line.size() - 1));
    if (line.empty() || line.starts_with('#'))
      continue;
    size_t colon = line.find(':');
    Client client;
    if (colon != line.npos) {
      std::string_view name = trimmed(line.substr(0, colon));
      line = trimmed(line.substr(colon + 1));
      const size_t at = std::min(name.find('@'), name.size());
      const bool hasGroup = at < name.size();
      if (!isName(name.substr(0, at)) ||
          (hasGroup && !isName(name.substr(at + 1))))
        return lineError(number,
                         "the name before \":\", or its group after \"@\", is "
                         "not 1 to 64 letters, digits and \"_.-\"");
      client = {std::string(name.substr(0, at)),
                std::string(hasGroup ? name.substr(at) : name)};
    }
    if (!isKey(line))
      return lineError(number, "a key is printable ASCII without spaces");
    Hash hash = hashOf(line);
    if (ring.has(hash))
      return lineError(number, "this key is in the file already");
    if (client.name.empty())
      client.name = client.group = nameOf(hash);
    // A client has one group, whichever of its keys it sends.
    for (const Key &other : ring.keys_)
      if (other.client.name == client.name &&
          other.client.group != client.group)
        return lineError(
            number, fmt::format("{} is in another group above", client.name));
    ring.keys_.push_back({std::move(client), hash});
  }
  if (ring.keys_.empty())
    return Status(StatusCode::InvalidFile,
                  "the file contains no key; write one on a line");
  return ring;
}

const KeyRing::Client *KeyRing::clientOf(std::string_view key) const {
  Hash hash = hashOf(key);
  const Client *found = nullptr;
  for (const Key &candidate : keys_)
    if (CRYPTO_memcmp(candidate.hash.data(), hash.data(), hash.size()) == 0)
      found = &candidate.client;
  return found;
}

std::string secretFileWarning(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 ||
      (info.st_mode & (S_IRGRP | S_IROTH)) == 0)
    return "";
  return fmt::format("other users can read {}; run: chmod 600 {}", path,
                     shellPath(path));
}

StatusOr<KeyFile> readKeyFile(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(std::string text, readInput(path, kMostKeyFileBytes));
  StatusOr<KeyRing> keys = KeyRing::parse(text);
  OPENSSL_cleanse(text.data(), text.size());
  if (!keys)
    return keys.status().at(path);
  return KeyFile{*std::move(keys), secretFileWarning(path)};
}

std::vector<std::string_view> presentedKeys(const HeaderMap &headers) {
  std::vector<std::string_view> keys;
  if (auto found = headers.find("authorization"); found != headers.end()) {
    constexpr std::string_view kScheme = "Bearer ";
    std::string_view value = found->second;
    if (equalsIgnoringCase(value.substr(0, kScheme.size()), kScheme))
      keys.push_back(trimmed(value.substr(kScheme.size())));
  }
  for (std::string_view name : {"x-api-key", "api-key"})
    if (auto found = headers.find(name); found != headers.end())
      keys.push_back(trimmed(found->second));
  return keys;
}

} // namespace moert
