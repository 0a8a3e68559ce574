//===- TestGpu.cpp --------------------------------------------------------===//

#include "test/softgpu/TestGpu.h"

namespace softgpu {

std::unique_ptr<DriverGpu> &TestGpu::driver() {
  static std::unique_ptr<DriverGpu> driver;
  return driver;
}

Silicon &silicon() {
  static Silicon silicon;
  return silicon;
}

static SoftGpuOptions hopper() {
  SoftGpuOptions options;
  options.arch = 90;
  return options;
}

TestGpu::TestGpu() : soft_(hopper()), driver_(driver().get()), memory_(*this) {}

TestGpu::~TestGpu() {
  if (driver())
    for (const auto &program : programs_)
      driver()->unload(*program);
}

moert::StatusOr<const Program *> TestGpu::load(const std::string &ptx) {
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Program> program, soft_.load(ptx));
  if (driver_)
    MOE_RETURN_IF_ERROR(driver_->load(*program, ptx));
  programs_.push_back(std::move(program));
  return programs_.back().get();
}

LaunchResult TestGpu::launch(const Kernel &kernel, const LaunchShape &shape,
                             std::span<const void *const> arguments) {
  return driver_ ? driver_->launch(kernel, shape, arguments)
                 : soft_.launch(kernel, shape, arguments);
}

uint64_t TestGpu::Memory::allocate(uint64_t bytes, std::string name) {
  return gpu_.driver_ ? gpu_.driver_->allocate(bytes)
                      : gpu_.soft_.memory().allocate(bytes, std::move(name));
}
bool TestGpu::Memory::free(uint64_t address) {
  return gpu_.driver_ ? gpu_.driver_->free(address)
                      : gpu_.soft_.memory().free(address);
}
bool TestGpu::Memory::copyIn(uint64_t to, const void *from, uint64_t bytes) {
  return gpu_.driver_ ? gpu_.driver_->copyIn(to, from, bytes)
                      : gpu_.soft_.memory().copyIn(to, from, bytes);
}
bool TestGpu::Memory::copyOut(void *to, uint64_t from, uint64_t bytes) {
  return gpu_.driver_ ? gpu_.driver_->copyOut(to, from, bytes)
                      : gpu_.soft_.memory().copyOut(to, from, bytes);
}
bool TestGpu::Memory::fill(uint64_t to, uint8_t value, uint64_t bytes) {
  return gpu_.driver_ ? gpu_.driver_->fill(to, value, bytes)
                      : gpu_.soft_.memory().fill(to, value, bytes);
}

} // namespace softgpu
