#include "test/support/Draw.h"

#include "kernels/quant/Half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

using moek::Format;
using moert::Status;
using moert::StatusCode;

namespace moetest {

namespace {

/// splitmix64, from a state that the seed and a name give.
class Stream {
public:
  Stream(uint64_t seed, std::string_view name) : state_(mix(seed)) {
    for (unsigned char byte : name)
      state_ = mix(state_ ^ byte);
  }

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }

  /// An integer below `count`, which is less than 2^32.
  uint64_t below(uint64_t count) { return (next() >> 32) * count >> 32; }

  /// The sum of eight integers of 16 bits, less its mean: nearly normal, with
  /// a variance of 8 (2^32 - 1) / 12.
  int64_t nearNormal() {
    int64_t sum = 0;
    for (int word = 0; word < 2; ++word) {
      uint64_t bits = next();
      for (int shift = 0; shift < 64; shift += 16)
        sum += int64_t(bits >> shift & 0xffff);
    }
    return sum - 8 * 0xffff / 2;
  }
  static constexpr double kVariance = 2863311530;

private:
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint64_t state_;
};

// Numbers are multiples of 2^-40 until they become floats.
constexpr int kFractionBits = 40;

int64_t fixedOf(double value) {
  return std::llround(std::ldexp(value, kFractionBits));
}

float floatOf(int64_t fixed) {
  return std::ldexp(static_cast<float>(fixed), -kFractionBits);
}

/// Appends a number in `format`; false if that is no format of numbers.
bool appendNumber(Bytes &bytes, Format format, float value) {
  switch (format) {
  case Format::F32:
    append(bytes, value);
    return true;
  case Format::F16:
    append(bytes, moek::floatToF16(value));
    return true;
  case Format::BF16:
    append(bytes, moek::floatToBf16(value));
    return true;
  case Format::I32:
    append(bytes, static_cast<int32_t>(value));
    return true;
  default:
    return false;
  }
}

Status unfit(Format format, std::string_view why) {
  return {StatusCode::InvalidFile,
          std::string(moek::formatInfo(format).name) + " " + std::string(why)};
}

/// Blocks of 4-bit floats begin with their scales; a code may be any.
moert::StatusOr<Bytes> drawCodes(Stream stream, Format format, uint64_t blocks,
                                 const std::vector<double> &scales) {
  uint32_t scaleBytes = format == Format::MXFP4   ? 1
                        : format == Format::NVFP4 ? 4
                                                  : 0;
  if (!scaleBytes)
    return unfit(format, "has no scale bytes to draw");
  auto least = uint64_t(scales[0]), most = uint64_t(scales[1]);
  uint32_t blockBytes = moek::formatInfo(format).blockBytes;
  Bytes bytes;
  for (uint64_t block = 0; block < blocks; ++block)
    for (uint32_t at = 0; at < blockBytes; ++at)
      bytes.push_back(at < scaleBytes
                          ? uint8_t(least + stream.below(most - least + 1))
                          : uint8_t(stream.below(256)));
  return bytes;
}

/// Draws `length` distinct integers below `count` for each row: the beginning
/// of a random order of all of them.
Bytes drawChoices(Stream stream, uint64_t rows, uint64_t length,
                  uint64_t count) {
  Bytes bytes;
  std::vector<int32_t> all(count);
  for (uint64_t row = 0; row < rows; ++row) {
    std::iota(all.begin(), all.end(), 0);
    for (uint64_t i = 0; i < length; ++i) {
      std::swap(all[i], all[i + stream.below(count - i)]);
      append(bytes, all[i]);
    }
  }
  return bytes;
}

} // namespace

moert::StatusOr<Bytes> draw(uint64_t seed, std::string_view name, Format format,
                            const std::vector<uint64_t> &shape,
                            const Distribution &distribution) {
  Stream stream(seed, name);
  const std::vector<double> &numbers = distribution.numbers;
  uint64_t elements = std::accumulate(shape.begin(), shape.end(), uint64_t(1),
                                      std::multiplies<>());
  auto drawAll = [&](auto &&drawOne) -> moert::StatusOr<Bytes> {
    Bytes bytes;
    for (uint64_t i = 0; i < elements; ++i)
      if (!appendNumber(bytes, format, drawOne(i)))
        return unfit(format, "is no format of single numbers");
    return bytes;
  };
  auto drawNormal = [&](double mean, double deviation) {
    int64_t middle = fixedOf(mean);
    int64_t step = fixedOf(deviation / std::sqrt(Stream::kVariance));
    return drawAll([&, middle, step](uint64_t) {
      return floatOf(middle + step * stream.nearNormal());
    });
  };
  switch (distribution.kind) {
  case Distribution::Normal:
    return drawNormal(numbers[0], numbers[1]);
  case Distribution::Gain:
    return drawNormal(0, numbers[0] / std::sqrt(double(shape[0])));
  case Distribution::Uniform: {
    // Numbers are multiples of 2^-16 of the whole range.
    int64_t least = fixedOf(numbers[0]);
    int64_t step = (fixedOf(numbers[1]) - least) >> 16;
    return drawAll([&](uint64_t) {
      return floatOf(least + step * int64_t(stream.below(0x10001)));
    });
  }
  case Distribution::Values:
    if (numbers.size() != elements)
      return Status(StatusCode::InvalidFile,
                    std::to_string(elements) + " values are needed, not " +
                        std::to_string(numbers.size()));
    return drawAll([&](uint64_t i) { return float(numbers[i]); });
  case Distribution::Choices:
    if (format != Format::I32 || shape[0] > uint64_t(numbers[0]))
      return unfit(format, "has no room for that many choices");
    return drawChoices(stream, elements / shape[0], shape[0],
                       uint64_t(numbers[0]));
  case Distribution::Codes:
    return drawCodes(stream, format,
                     elements / moek::formatInfo(format).blockElements,
                     numbers);
  }
  return Status(StatusCode::Internal, "no such distribution");
}

} // namespace moetest
