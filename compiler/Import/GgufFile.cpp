#include "compiler/Import/GgufFile.h"

#include "compiler/Import/GgufSplit.h"
#include "compiler/Import/GgufTypes.h"
#include "runtime/base/Text.h"

#include <fmt/format.h>

using namespace moert;

namespace moec {

struct GgufModel::Impl {
  std::vector<GgufPart> parts;
  std::vector<std::string> paths;
  std::vector<GgufTensor> tensors;
  NameIndex tensorIndex;
  std::string_view architecture;

  /// Combines the tensors of all parts.
  Status mergeTensors();
  Status readArchitecture();

  const GgufMetadata &metadata() const { return parts.front().metadata; }
  const std::string &path() const { return paths.front(); }
};

Status GgufModel::Impl::mergeTensors() {
  for (size_t i = 0; i < parts.size(); ++i)
    for (GgufTensor tensor : parts[i].tensors) {
      tensor.file = static_cast<uint32_t>(i);
      tensors.push_back(tensor);
    }
  auto nameOf = [&](size_t i) { return tensors[i].name; };
  tensorIndex.build(tensors.size(), nameOf);
  auto twice = tensorIndex.findDuplicate(nameOf);
  if (!twice)
    return Status::ok();
  return Status(StatusCode::InvalidFile,
                fmt::format("{}: tensor {} appears twice, first in {}",
                            paths[tensors[twice->second].file],
                            quoted(nameOf(twice->first)),
                            paths[tensors[twice->first].file]));
}

Status GgufModel::Impl::readArchitecture() {
  constexpr std::string_view key = "general.architecture";
  const GgufValue *value = metadata().find(key);
  if (!value)
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: key {} is missing: the file is not a model",
                              path(), quoted(key)));
  const auto *name = std::get_if<std::string_view>(&value->data);
  if (!name)
    return ggufTypeError(path(), key, *value, "a string");
  if (name->empty())
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: byte {}: key {}: expected a name, found "
                              "an empty string",
                              path(), value->fileOffset, quoted(key)));
  architecture = *name;
  return Status::ok();
}

GgufModel::GgufModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufModel::GgufModel(GgufModel &&) noexcept = default;
GgufModel &GgufModel::operator=(GgufModel &&) noexcept = default;
GgufModel::~GgufModel() = default;

StatusOr<GgufModel> GgufModel::open(const std::string &path) {
  auto impl = std::make_unique<Impl>();
  MOE_ASSIGN_OR_RETURN(impl->parts, openGgufParts(path));
  for (const GgufPart &part : impl->parts)
    impl->paths.push_back(part.file.path());
  MOE_RETURN_IF_ERROR(impl->mergeTensors());
  MOE_RETURN_IF_ERROR(impl->readArchitecture());
  return GgufModel(std::move(impl));
}

std::span<const std::string> GgufModel::paths() const { return impl_->paths; }

uint64_t GgufModel::fileBytes(size_t file) const {
  return impl_->parts[file].file.bytes().size();
}

uint64_t GgufModel::headerBytes(size_t file) const {
  return impl_->parts[file].headerBytes;
}

std::span<const uint8_t> GgufModel::header(size_t file) const {
  return impl_->parts[file].file.bytes().first(headerBytes(file));
}

std::span<const uint8_t>
GgufModel::tensorBytes(const GgufTensor &tensor) const {
  return impl_->parts[tensor.file].file.bytes().subspan(tensor.offset,
                                                        tensor.bytes);
}

uint32_t GgufModel::version() const { return impl_->parts.front().version; }

std::string_view GgufModel::architecture() const { return impl_->architecture; }

const std::vector<GgufTensor> &GgufModel::tensors() const {
  return impl_->tensors;
}

const GgufTensor *GgufModel::findTensor(std::string_view name) const {
  const std::vector<GgufTensor> &tensors = impl_->tensors;
  std::optional<size_t> at =
      impl_->tensorIndex.find(name, [&](size_t i) { return tensors[i].name; });
  return at ? &tensors[*at] : nullptr;
}

const std::vector<std::pair<std::string_view, GgufValue>> &
GgufModel::metadata() const {
  return impl_->metadata().entries;
}

const GgufValue *GgufModel::find(std::string_view key) const {
  return impl_->metadata().find(key);
}

StatusOr<std::optional<uint64_t>>
GgufModel::getUint(std::string_view key) const {
  return moec::getUint(impl_->metadata(), impl_->path(), key);
}

namespace {
/// Returns the value of `key` if it is a T, else an error that names
/// `expected`.
template <typename T>
StatusOr<std::optional<T>>
getScalar(const GgufMetadata &metadata, const std::string &path,
          std::string_view key, std::string_view expected) {
  const GgufValue *value = metadata.find(key);
  if (!value)
    return std::optional<T>();
  if (const T *scalar = std::get_if<T>(&value->data))
    return std::optional<T>(*scalar);
  return ggufTypeError(path, key, *value, expected);
}
} // namespace

StatusOr<std::optional<double>>
GgufModel::getFloat(std::string_view key) const {
  return getScalar<double>(impl_->metadata(), impl_->path(), key, "a float");
}

StatusOr<std::optional<bool>> GgufModel::getBool(std::string_view key) const {
  return getScalar<bool>(impl_->metadata(), impl_->path(), key, "a bool");
}

StatusOr<std::optional<std::string_view>>
GgufModel::getString(std::string_view key) const {
  return getScalar<std::string_view>(impl_->metadata(), impl_->path(), key,
                                     "a string");
}

StatusOr<const GgufArray *> GgufModel::getArray(std::string_view key,
                                                GgufType elementType) const {
  const GgufValue *value = find(key);
  if (!value)
    return static_cast<const GgufArray *>(nullptr);
  GgufKind wanted = ggufTypeInfo(elementType).kind;
  bool anyInteger = elementType == GgufType::U32;
  if (const auto *array = std::get_if<GgufArray>(&value->data)) {
    GgufKind found = ggufTypeInfo(array->elementType).kind;
    if (found == wanted || (anyInteger && found == GgufKind::Signed))
      return array;
  }
  return ggufTypeError(
      impl_->path(), key, *value,
      fmt::format("array of {}",
                  anyInteger ? "integers" : ggufTypeInfo(elementType).name));
}

} // namespace moec
