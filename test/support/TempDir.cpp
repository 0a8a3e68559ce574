#include "test/support/TempDir.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdlib.h>

namespace moetest {

TempDir::TempDir() {
  path_ = (std::filesystem::temp_directory_path() / "moe-test-XXXXXX").string();
  if (!mkdtemp(path_.data())) {
    std::perror("mkdtemp");
    std::abort();
  }
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::file(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string TempDir::write(std::string_view name,
                           std::string_view content) const {
  std::string path = file(name);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!stream.flush()) {
    std::perror(path.c_str());
    std::abort();
  }
  return path;
}

std::string TempDir::write(std::string_view name,
                           std::span<const uint8_t> content) const {
  return write(name,
               std::string_view(reinterpret_cast<const char *>(content.data()),
                                content.size()));
}

} // namespace moetest
