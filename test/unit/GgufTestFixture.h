//===- GgufTestFixture.h - Opens built files --------------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_GGUFTESTFIXTURE_H
#define MOE_TEST_UNIT_GGUFTESTFIXTURE_H

#include "test/support/GgufBuilder.h"
#include "test/support/TempDir.h"

#include <gtest/gtest.h>
#include <initializer_list>

namespace moetest {

/// Returns a builder with the one key that every model needs.
inline GgufBuilder modelBuilder() {
  GgufBuilder gguf;
  gguf.add("general.architecture", "test");
  return gguf;
}

class GgufTest : public ::testing::Test {
protected:
  moert::StatusOr<moec::GgufModel> open(const GgufBuilder &gguf) {
    return moec::GgufModel::open(gguf.write(path));
  }

  moert::StatusOr<moec::GgufModel> openBytes(std::span<const uint8_t> bytes) {
    return moec::GgufModel::open(dir.write("model.gguf", bytes));
  }

  /// Checks that the failure names the file and contains every one of `pieces`.
  void expectFailure(const moert::Status &status, moert::StatusCode code,
                     std::initializer_list<std::string_view> pieces) {
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code))
        << status.message();
    EXPECT_NE(status.message().find(dir.path()), std::string::npos)
        << status.message();
    for (std::string_view piece : pieces)
      EXPECT_NE(status.message().find(piece), std::string::npos)
          << "expected: " << piece << "\nfound:    " << status.message();
  }

  /// Checks that opening fails at byte `offset` with every one of `pieces`.
  void expectErrorAt(const GgufBuilder &gguf, uint64_t offset,
                     std::initializer_list<std::string_view> pieces) {
    moert::Status status = open(gguf).status();
    expectFailure(status, moert::StatusCode::InvalidFile, pieces);
    std::string place = path + ": byte " + std::to_string(offset) + ": ";
    EXPECT_TRUE(status.message().starts_with(place))
        << "expected: " << place << "\nfound:    " << status.message();
  }

  TempDir dir;
  std::string path = dir.file("model.gguf");
};

} // namespace moetest

#endif // MOE_TEST_UNIT_GGUFTESTFIXTURE_H
