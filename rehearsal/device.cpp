// What PyTorch's C++ asks of a device before it lets a tensor claim to be on it: a guard, and hooks that say yes.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

using c10::Device, c10::DeviceIndex, c10::DeviceType, c10::Stream;
DeviceIndex current = 0, count = 1;

template <class Interface>
struct Hooks : Interface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex deviceCount() const override { return count; }
};

template <DeviceType D>
struct Guard final : c10::impl::NoOpDeviceGuardImpl<D> {
  Device getDevice() const override { return Device(D, current); }
  void setDevice(Device to) const override { current = to.index(); }
  void uncheckedSetDevice(Device to) const noexcept override { current = to.index(); }
  Device exchangeDevice(Device to) const override { return Device(D, std::exchange(current, to.index())); }
  DeviceIndex deviceCount() const noexcept override { return count; }
  Stream getStream(Device on) const noexcept override { return Stream(Stream::DEFAULT, on); }
  Stream getNewStream(Device on, int = 0) const override { return Stream(Stream::DEFAULT, on); }
  Stream exchangeStream(Stream stream) const noexcept override { return stream; }
};

template <class Interface, DeviceType D>
void play(const Interface& hooks) {
  c10::impl::DeviceGuardImplRegistrar(D, new Guard<D>);
  // The hooks there are, which may be in use already, take on the functions of these.
  const void* mine = new Hooks<Interface>;
  std::memcpy(const_cast<void*>(static_cast<const void*>(&hooks)), mine, sizeof(void*));
}

extern "C" void play_cuda() { play<at::CUDAHooksInterface, DeviceType::CUDA>(at::detail::getCUDAHooks()); }
extern "C" void play_mps() { play<at::MPSHooksInterface, DeviceType::MPS>(at::detail::getMPSHooks()); }
extern "C" void set_count(int n) { count = n; }
extern "C" void set_current(int to) { current = to; }
extern "C" int get_current() { return current; }
