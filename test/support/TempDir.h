//===- TempDir.h - A folder that exists as long as a test -------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_TEMPDIR_H
#define MOE_TEST_SUPPORT_TEMPDIR_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moetest {

/// Creates a folder, and removes it with its contents at the end.
class TempDir {
public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir &) = delete;
  TempDir &operator=(const TempDir &) = delete;

  const std::string &path() const { return path_; }
  /// Returns the path of `name` inside the folder.
  std::string file(std::string_view name) const;
  /// Writes `content` to `name` and returns its path.
  std::string write(std::string_view name, std::string_view content) const;
  std::string write(std::string_view name,
                    std::span<const uint8_t> content) const;

private:
  std::string path_;
};

} // namespace moetest

#endif // MOE_TEST_SUPPORT_TEMPDIR_H
