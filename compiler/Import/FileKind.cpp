#include "compiler/Import/FileKind.h"

#include "runtime/base/Suggest.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>
#include <vector>

using namespace moert;

namespace moec {

namespace {

struct KnownMagic {
  std::string_view magic;
  std::string_view message;
};

using namespace std::string_view_literals;

constexpr KnownMagic knownMagics[] = {
    {"PK\3\4"sv, "looks like a zip archive or PyTorch checkpoint; convert the "
                 "model to GGUF first"},
    {"\x80\x02"sv, "looks like a Python pickle; convert the model to GGUF "
                   "first"},
    {"\x1f\x8b"sv, "looks like gzip data; decompress it first"},
    {"\x28\xb5\x2f\xfd"sv, "looks like zstd data; decompress it first"},
    {"\xfd"
     "7zXZ"sv,
     "looks like xz data; decompress it first"},
    {"7z\xbc\xaf"sv, "looks like a 7-Zip archive; extract it first"},
    {"version https://git-lfs"sv, "is a Git LFS pointer, not the model; fetch "
                                  "the real file with 'git lfs pull'"},
    {"lmgg"sv, "is a ggml file from before GGUF; convert the model again"},
    {"fmgg"sv, "is a ggml file from before GGUF; convert the model again"},
    {"tjgg"sv, "is a ggml file from before GGUF; convert the model again"},
    {"algg"sv, "is a ggml adapter from before GGUF; convert it again"},
    {"FUGG"sv, "is a byte-swapped GGUF file; convert the model again on a "
               "little-endian machine"},
};

/// Compares the text at the start of a file, after white space and a byte order
/// mark, ignoring case.
bool beginsWithText(std::string_view text, std::string_view lowerPrefix) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return false;
  text = text.substr(begin, lowerPrefix.size());
  return std::equal(text.begin(), text.end(), lowerPrefix.begin(),
                    lowerPrefix.end(), [](char a, char b) {
                      return std::tolower(static_cast<unsigned char>(a)) == b;
                    });
}

/// A safetensors file begins with a 64-bit length and a JSON object.
bool isSafetensors(std::string_view text) {
  return text.size() >= 10 && text[8] == '{' && text[9] == '"' &&
         text.substr(4, 4) == "\0\0\0\0"sv;
}

std::string describe(std::string_view text) {
  for (const KnownMagic &known : knownMagics)
    if (text.starts_with(known.magic))
      return std::string(known.message);
  if (isSafetensors(text))
    return "looks like a safetensors checkpoint; convert the model to GGUF "
           "first";
  if (beginsWithText(text, "<!doctype") || beginsWithText(text, "<html") ||
      beginsWithText(text, "<head"))
    return "looks like an HTML page: the download probably failed (a login or "
           "error page was saved); download the file again";
  if (beginsWithText(text, "<?xml"))
    return "looks like an XML document: the download probably failed; download "
           "the file again";
  if (beginsWithText(text, "{") || beginsWithText(text, "["))
    return "looks like JSON, perhaps a server's error message; download the "
           "file again";
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == 0; }))
    return "begins with zeros: the download was probably interrupted after "
           "the space had been reserved; download the file again";
  std::string hex;
  for (char c : text.substr(0, 4))
    hex += fmt::format("{:02x} ", static_cast<unsigned char>(c));
  return fmt::format("is not a GGUF file: expected the bytes 47 47 55 46 "
                     "('GGUF') at byte 0, found {}",
                     hex.substr(0, hex.size() - 1));
}

/// Names of the entries of a folder for which `keep` holds, sorted.
template <typename Keep>
std::vector<std::string> listFolder(const std::filesystem::path &folder,
                                    Keep keep) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error), end;
  while (!error && it != end) {
    std::string name = it->path().filename().string();
    if (keep(name))
      names.push_back(std::move(name));
    it.increment(error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status directoryError(const std::string &path) {
  std::vector<std::string> models = listFolder(
      path, [](const std::string &name) { return name.ends_with(".gguf"); });
  std::string advice = "name a .gguf file";
  if (!models.empty()) {
    constexpr size_t shown = 4;
    size_t more = models.size() - std::min(models.size(), shown);
    models.resize(std::min(models.size(), shown));
    advice =
        fmt::format("it holds {}{}: name one of them", fmt::join(models, ", "),
                    more ? fmt::format(" and {} more", more) : "");
  } else if (std::error_code error;
             std::filesystem::exists(path + "/config.json", error)) {
    advice = "it looks like a Hugging Face checkpoint: convert it to GGUF "
             "first";
  }
  return Status(
      StatusCode::Io,
      fmt::format("{}: is a directory, not a file; {}", path, advice));
}

Status missingError(const std::string &path) {
  std::filesystem::path wanted(path);
  std::filesystem::path folder =
      wanted.has_parent_path() ? wanted.parent_path() : ".";
  std::vector<std::string> names =
      listFolder(folder, [](const std::string &) { return true; });
  std::optional<std::string> similar =
      closestMatch(wanted.filename().string(), names);
  std::string hint =
      similar ? fmt::format("; did you mean {}?",
                            (wanted.parent_path() / *similar).string())
              : std::string();
  return Status(StatusCode::Io, fmt::format("{}: no such file{}", path, hint));
}

} // namespace

Status checkGgufMagic(const std::string &path, std::span<const uint8_t> bytes) {
  constexpr std::string_view magic = "GGUF";
  // Enough for every magic above, and for white space before HTML.
  constexpr size_t examined = 256;
  std::string_view text(reinterpret_cast<const char *>(bytes.data()),
                        std::min(bytes.size(), examined));
  if (text.starts_with(magic))
    return Status::ok();
  if (text.empty())
    return Status(StatusCode::InvalidFile,
                  path + ": is empty: the download probably failed; download "
                         "the file again");
  if (magic.starts_with(text))
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: byte {}: the file ends inside the magic "
                              "'GGUF'; it is truncated",
                              path, text.size()));
  return Status(StatusCode::InvalidFile,
                fmt::format("{}: {}", path, describe(text)));
}

Status checkModelPath(const std::string &path) {
  std::error_code error;
  std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status))
    return directoryError(path);
  if (status.type() == std::filesystem::file_type::not_found)
    return missingError(path);
  return Status::ok();
}

} // namespace moec
