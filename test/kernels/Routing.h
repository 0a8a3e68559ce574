//===- Routing.h - Random assignment of tokens to experts -------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_ROUTING_H
#define MOE_TEST_KERNELS_ROUTING_H

#include "test/kernels/KernelTest.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace moek::test {

/// The results of a router and ExpertGroup: `topK` distinct random experts per
/// token, of which expert 1 is popular and expert 2 has no tokens, and the
/// slots sorted by expert, then by token.
struct Routing {
  Routing(int32_t tokens, int32_t topK, int32_t experts, Random &random) {
    for (int32_t t = 0; t < tokens; ++t)
      for (int32_t j = 0; j < topK; ++j) {
        int32_t e;
        do
          e = j == 0 && t % 3 ? 1 : random.below(experts);
        while (e == 2 || std::count(ids.end() - j, ids.end(), e));
        ids.push_back(e);
      }
    group(experts, [](int32_t e) { return e; });
  }

  /// Groups only the slots of `count` experts. `numberOf` returns the number of
  /// an expert among these; any other number means that it is on another
  /// device.
  template <typename NumberOf> void group(int32_t count, NumberOf numberOf) {
    offsets.assign(1, 0);
    slots.clear();
    for (int32_t number = 0; number < count; ++number) {
      for (size_t i = 0; i < ids.size(); ++i)
        if (numberOf(ids[i]) == number)
          slots.push_back(int32_t(i));
      offsets.push_back(int32_t(slots.size()));
    }
  }

  std::vector<int32_t> ids;     ///< [tokens][topK]
  std::vector<int32_t> offsets; ///< [experts + 1], in slots
  std::vector<int32_t> slots;   ///< Indices into ids.
};

} // namespace moek::test

#endif // MOE_TEST_KERNELS_ROUTING_H
