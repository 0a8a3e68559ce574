#include "test/support/GgufBuilder.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using moec::GgufType;

namespace moetest {

namespace {

uint64_t roundUp(uint64_t value, uint64_t unit) {
  return unit == 0 ? value : (value + unit - 1) / unit * unit;
}

[[noreturn]] void fail(const std::string &path) {
  std::perror(path.c_str());
  std::abort();
}

void writeAt(int fd, const std::string &path, const Bytes &bytes,
             uint64_t offset) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::pwrite(fd, bytes.data() + done, bytes.size() - done,
                         static_cast<off_t>(offset + done));
    if (n <= 0)
      fail(path);
    done += static_cast<size_t>(n);
  }
}

} // namespace

void appendString(Bytes &bytes, std::string_view text) {
  append(bytes, uint64_t(text.size()));
  bytes.insert(bytes.end(), text.begin(), text.end());
}

uint64_t tensorBytes(const TensorSpec &tensor) {
  std::optional<moek::Format> format = moek::formatFromNumber(tensor.type);
  if (!format || tensor.shape.empty())
    return 0;
  uint64_t bytes = moek::rowBytes(*format, tensor.shape[0]);
  for (size_t i = 1; i < tensor.shape.size(); ++i)
    bytes *= tensor.shape[i];
  return bytes;
}

GgufBuilder &GgufBuilder::add(std::string_view key, std::string_view text) {
  Bytes payload;
  appendString(payload, text);
  return addRaw(key, GgufType::String, payload);
}

GgufBuilder &GgufBuilder::addStrings(std::string_view key,
                                     const std::vector<std::string> &values) {
  Bytes payload;
  append(payload, GgufType::String);
  append(payload, uint64_t(values.size()));
  for (const std::string &value : values)
    appendString(payload, value);
  return addRaw(key, GgufType::Array, payload);
}

GgufBuilder &GgufBuilder::addRaw(std::string_view key, GgufType type,
                                 const Bytes &payload) {
  keys_.push_back({std::string(key), type, payload});
  return *this;
}

GgufBuilder &GgufBuilder::setAlignment(uint32_t alignment) {
  alignment_ = alignment;
  return add("general.alignment", alignment);
}

TensorSpec &GgufBuilder::addTensor(std::string_view name, moek::Format format,
                                   std::vector<uint64_t> shape, Bytes data) {
  return tensors_.emplace_back(TensorSpec{std::string(name),
                                          static_cast<uint32_t>(format),
                                          std::move(shape), std::move(data)});
}

TensorSpec &GgufBuilder::addTensor(std::string_view name,
                                   std::vector<uint64_t> shape,
                                   std::span<const float> values) {
  Bytes data(values.size_bytes());
  std::memcpy(data.data(), values.data(), data.size());
  return addTensor(name, moek::Format::F32, std::move(shape), std::move(data));
}

GgufBuilder::Layout GgufBuilder::layout() const {
  Layout layout;
  Bytes &out = layout.header;
  out.insert(out.end(), magic.begin(), magic.end());
  append(out, version);
  append(out, tensorCount.value_or(tensors_.size()));
  append(out, keyCount.value_or(keys_.size()));
  for (const Key &key : keys_) {
    layout.keys[key.name] = out.size();
    appendString(out, key.name);
    append(out, key.type);
    out.insert(out.end(), key.payload.begin(), key.payload.end());
  }

  uint64_t next = 0;
  std::vector<uint64_t> offsets;
  for (const TensorSpec &tensor : tensors_) {
    layout.tensors[tensor.name] = out.size();
    appendString(out, tensor.name);
    append(out, tensor.rank.value_or(uint32_t(tensor.shape.size())));
    for (uint64_t dimension : tensor.shape)
      append(out, dimension);
    append(out, tensor.type);
    append(out, tensor.offset.value_or(next));
    offsets.push_back(next);
    uint64_t taken = tensor.bytes.value_or(tensorBytes(tensor));
    next = roundUp(next + taken, alignment_);
  }
  out.resize(roundUp(out.size(), alignment_));
  for (uint64_t offset : offsets)
    layout.dataOffsets.push_back(out.size() + offset);
  layout.fileBytes = out.size() + next;
  return layout;
}

Bytes GgufBuilder::header() const { return layout().header; }

uint64_t GgufBuilder::fileBytes() const { return layout().fileBytes; }

Bytes GgufBuilder::build() const {
  Layout plan = layout();
  Bytes bytes = std::move(plan.header);
  bytes.resize(plan.fileBytes);
  for (size_t i = 0; i < tensors_.size(); ++i)
    std::copy(tensors_[i].data.begin(), tensors_[i].data.end(),
              bytes.begin() + static_cast<ptrdiff_t>(plan.dataOffsets[i]));
  return bytes;
}

std::string GgufBuilder::write(const std::string &path) const {
  Layout plan = layout();
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0)
    fail(path);
  writeAt(fd, path, plan.header, 0);
  for (size_t i = 0; i < tensors_.size(); ++i)
    writeAt(fd, path, tensors_[i].data, plan.dataOffsets[i]);
  if (::ftruncate(fd, static_cast<off_t>(plan.fileBytes)) != 0)
    fail(path);
  ::close(fd);
  return path;
}

uint64_t GgufBuilder::keyAt(std::string_view key) const {
  return layout().keys.find(key)->second;
}
uint64_t GgufBuilder::valueTypeAt(std::string_view key) const {
  return keyAt(key) + sizeof(uint64_t) + key.size();
}
uint64_t GgufBuilder::valueAt(std::string_view key) const {
  return valueTypeAt(key) + sizeof(uint32_t);
}
uint64_t GgufBuilder::tensorAt(std::string_view name) const {
  return layout().tensors.find(name)->second;
}
uint64_t GgufBuilder::rankAt(std::string_view name) const {
  return tensorAt(name) + sizeof(uint64_t) + name.size();
}
uint64_t GgufBuilder::dimensionAt(std::string_view name,
                                  unsigned dimension) const {
  return rankAt(name) + sizeof(uint32_t) + dimension * sizeof(uint64_t);
}
uint64_t GgufBuilder::typeAt(std::string_view name) const {
  for (const TensorSpec &tensor : tensors_)
    if (tensor.name == name)
      return dimensionAt(name, unsigned(tensor.shape.size()));
  std::abort();
}
uint64_t GgufBuilder::offsetAt(std::string_view name) const {
  return typeAt(name) + sizeof(uint32_t);
}
uint64_t GgufBuilder::dataAt() const { return header().size(); }

} // namespace moetest
