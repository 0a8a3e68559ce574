#include "tools/moert/Npy.h"

#include <bit>
#include <fmt/format.h>

namespace moert {

static_assert(std::endian::native == std::endian::little,
              "'<f4' is how floats lie in memory");

StatusOr<NpyWriter> NpyWriter::create(OutputTarget target, size_t rows,
                                      size_t cols) {
  std::string header = fmt::format(
      "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows,
      cols);
  // The total length of magic, version, header length and header is a multiple
  // of 64.
  constexpr size_t prefix = 10;
  size_t total = (prefix + header.size() + 1 + 63) / 64 * 64;
  header.resize(total - prefix - 1, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  start += header;

  MOE_ASSIGN_OR_RETURN(
      OutputFile file,
      OutputFile::create(std::move(target), OutputFile::Content::Binary));
  NpyWriter writer(std::move(file));
  MOE_RETURN_IF_ERROR(writer.file_.write(start.data(), start.size()));
  return writer;
}

Status NpyWriter::append(std::span<const float> values) {
  return file_.write(values.data(), values.size_bytes());
}

} // namespace moert
