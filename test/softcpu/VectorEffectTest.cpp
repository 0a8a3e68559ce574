#include "test/softcpu/VectorEffectTest.h"

namespace moek::test {

namespace {
/// Makes masks opposite, equal or empty more often than chance would.
void relateMasks(std::mt19937 &random, Registers &registers) {
  uint64_t *mask = registers.mask;
  switch (random() % 8) {
  case 0:
    mask[2] = ~mask[1];
    break;
  case 1:
    mask[2] = mask[1];
    break;
  case 2:
    mask[1] = mask[2] = 0;
    break;
  case 3:
    mask[1] = ~uint64_t(0);
    break;
  case 4: // The mask has the form of one at the end of a row.
    for (int i = 1; i < 8; ++i)
      mask[i] = (uint64_t(1) << random() % 64) - 1;
    break;
  }
  mask[4] = 0;
  mask[5] &= (uint64_t(1) << 7) - 1;
  mask[6] &= (uint64_t(1) << 14) - 1;
  mask[7] &= (uint64_t(1) << 56) - 1;
}
} // namespace

void checkEffect(const EffectCase &test, const Code &code) {
  SCOPED_TRACE(test.text);
  int failures = failureCount();
  constexpr unsigned kRepeats = 40;
  GuardedMemory memory;
  std::byte *at = memory.end() - sizeof(Vector);
  for (unsigned seed = 0; seed < kRepeats; ++seed) {
    std::mt19937 random(seed);
    Registers before = randomRegisters(random);
    relateMasks(random, before);
    randomise(random, at, sizeof(Vector));
    before.general[0] = reinterpret_cast<uint64_t>(at);
    before.general[1] &= 7;
    before.general[2] &= 7;
    Registers expected = before;
    Vector expectedMemory;
    std::memcpy(expectedMemory.bytes, at, sizeof(Vector));
    test.apply({expected, expectedMemory});
    expectSame(executeBoth(code, before, &memory), expected);
    EXPECT_EQ(std::memcmp(at, expectedMemory.bytes, sizeof(Vector)), 0)
        << "other memory than expected";
    if (failureCount() > failures)
      return;
  }
}

} // namespace moek::test
