// A device for tests, torch's PrivateUse1: memory in a region that is closed but while an operation of the device runs.
//
// Every operation runs on the host's copies of its tensors; the host that touches the region by itself is killed. What
// would make the host wait for a GPU, and each copy between host and device, is written down.
#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

namespace {

constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr size_t RESERVED = size_t(4) << 30, LINE = 512;

// -- memory -----------------------------------------------------------------------------------------------------------
struct Region {
    std::recursive_mutex lock;
    char* const base = static_cast<char*>(
        mmap(nullptr, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    size_t used = 0, limit = RESERVED, live = 0;
    int opened = 0;
    std::multimap<size_t, char*> unused;
    std::map<char*, size_t> sizes;
    std::string events;

    void protect(int how) { mprotect(base, RESERVED, how); }
    void note(const std::string& event) {
        std::lock_guard<std::recursive_mutex> held(lock);
        events += event + "\n";
    }
};
Region& region() { static auto* made = new Region; return *made; }

struct Opened {
    Opened() {
        std::lock_guard<std::recursive_mutex> held(region().lock);
        if (region().opened++ == 0) region().protect(PROT_READ | PROT_WRITE);
    }
    ~Opened() {
        std::lock_guard<std::recursive_mutex> held(region().lock);
        if (--region().opened == 0) region().protect(PROT_NONE);
    }
};

char* take(size_t bytes) {
    auto& r = region();
    std::lock_guard<std::recursive_mutex> held(r.lock);
    const size_t size = (std::max(bytes, size_t(1)) + LINE - 1) / LINE * LINE;
    TORCH_CHECK_WITH(OutOfMemoryError, r.live + size <= r.limit, "fake_device: out of memory: ", bytes, " bytes");
    char* at;
    auto reused = r.unused.find(size);
    if (reused != r.unused.end()) {
        at = reused->second;
        r.unused.erase(reused);
    } else {
        TORCH_CHECK(r.used + size <= RESERVED, "fake_device: the region is used up");
        at = r.base + r.used;
        r.used += size;
    }
    r.sizes[at] = size, r.live += size;
    Opened opened;
    memset(at, 0xff, size);  // NaN: what is read before it is written shows
    return at;
}
void give(void* at) {
    auto& r = region();
    std::lock_guard<std::recursive_mutex> held(r.lock);
    const size_t size = r.sizes.at(static_cast<char*>(at));
    r.sizes.erase(static_cast<char*>(at)), r.live -= size;
    r.unused.emplace(size, static_cast<char*>(at));
    Opened opened;
    memset(at, 0xff, size);
}

struct DeviceMemory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        char* at = bytes ? take(bytes) : nullptr;
        return {at, at, at ? &give : [](void*) {}, c10::Device(KIND, 0)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give; }
    void copy_data(void* to, const void* from, size_t bytes) const override {
        Opened opened;
        memcpy(to, from, bytes);
    }
};
DeviceMemory device_memory;

std::mutex pinned_lock;
std::map<char*, size_t> pinned;
struct PinnedMemory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        std::lock_guard<std::mutex> held(pinned_lock);
        char* at = static_cast<char*>(aligned_alloc(64, (bytes + 64) / 64 * 64));
        pinned[at] = bytes + 1;
        return {at, at, &unpin, c10::Device(c10::DeviceType::CPU)};
    }
    static void unpin(void* at) {
        std::lock_guard<std::mutex> held(pinned_lock);
        pinned.erase(static_cast<char*>(at));
        free(at);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
    void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }
};
PinnedMemory pinned_memory;
bool is_pinned(const void* data) {
    std::lock_guard<std::mutex> held(pinned_lock);
    auto* at = static_cast<char*>(const_cast<void*>(data));
    auto next = pinned.upper_bound(at);
    return next != pinned.begin() && at < std::prev(next)->first + std::prev(next)->second;
}

// -- one device, with streams ------------------------------------------------------------------------------------------
thread_local int64_t current_stream = 0;
int64_t streams = 0;
struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return KIND; }
    c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
    c10::Device getDevice() const override { return {KIND, 0}; }
    void setDevice(c10::Device) const override {}
    void uncheckedSetDevice(c10::Device) const noexcept override {}
    c10::Stream getStream(c10::Device device) const override { return stream(current_stream); }
    c10::Stream getDefaultStream(c10::Device device) const override { return stream(0); }
    c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(++streams); }
    c10::Stream getNewStream(c10::Device, int) const override { return stream(++streams); }
    c10::Stream exchangeStream(c10::Stream next) const override {
        const auto before = stream(current_stream);
        current_stream = next.id();
        return before;
    }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }
    bool queryStream(const c10::Stream&) const override { return true; }
    void synchronizeStream(const c10::Stream&) const override { region().note("wait: stream"); }
    void synchronizeDevice(const c10::DeviceIndex) const override { region().note("wait: device"); }
    void synchronizeEvent(void*) const override { region().note("wait: event"); }
    void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
        *event = this->base();
    }
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
    void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

   private:
    static c10::Stream stream(int64_t id) { return c10::Stream(c10::Stream::UNSAFE, c10::Device(KIND, 0), id); }
    static void* base() { return &streams; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
    c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
    c10::DeviceIndex deviceCount() const override { return 1; }
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    void setCurrentDevice(c10::DeviceIndex) const override {}
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
        auto next = device_memory.allocate(bytes);
        if (storage.data()) device_memory.copy_data(next.get(), storage.data(), std::min(bytes, storage.nbytes()));
        storage.set_data_ptr(std::move(next));
        storage.unsafeGetStorageImpl()->set_nbytes(bytes);
    }
};
Hooks hooks;

// -- operations -------------------------------------------------------------------------------------------------------
thread_local int inside = 0;  // an operation's own copies are none of the program's
struct Inside { Inside() { ++inside; } ~Inside() { --inside; } };

const std::set<std::string> WAITS = {
    "aten::nonzero", "aten::_unique", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
    "aten::unique_dim_consecutive", "aten::masked_select", "aten::bincount", "aten::repeat_interleave", "aten::equal",
    "aten::is_nonzero", "aten::nonzero_static"};
const std::set<std::string> INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"};

at::Tensor on_host(const at::Tensor& x) {
    if (!x.is_privateuseone()) return x;
    return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), x.options().device(c10::kCPU));
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto& schema = op.schema();
    const std::string& name = schema.name();
    const bool indexing = INDEXING.count(name);
    // Without the size of the result, which is its last argument, repeating has to ask the device for it.
    const bool has_size = name == "aten::repeat_interleave" && !torch::jit::last(*stack, 1)[0].isNone();
    if (!inside && !has_size && WAITS.count(name)) region().note("wait: " + name);
    bool here = false, there = false;
    const auto look = [&](const at::Tensor& x) {
        if (!x.defined()) return;
        there |= x.is_privateuseone(), here |= x.is_cpu() && x.dim() > 0;
        const bool mask = x.scalar_type() == at::kBool || x.scalar_type() == at::kByte;
        if (!inside && indexing && mask) region().note("wait: " + name + " by a mask");
    };
    const auto arguments = torch::jit::last(*stack, schema.arguments().size());
    for (size_t i = 0; i < arguments.size(); ++i) {
        const auto& value = arguments[i];
        if (indexing && i != 1) continue;  // the indices alone; values may be a mask's
        if (value.isTensor()) look(value.toTensor());
        if (value.isTensorList()) for (const at::Tensor& x : value.toTensorList()) look(x);
        if (value.isList() && !value.isTensorList())
            for (const c10::IValue& x : value.toListRef()) if (x.isTensor()) look(x.toTensor());
    }
    if (indexing && here) {
        if (!inside) region().note("wait: " + name + " by indices of the host");
    } else {
        TORCH_CHECK(!(here && there), "fake_device: ", name, " got tensors of the host and of the device");
    }
    Inside within;
    at::native::cpu_fallback(op, stack);
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_memory,
                                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     dtype.value_or(c10::get_default_dtype_as_scalartype()), format);
}
at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                             &device_memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                             dtype.value_or(c10::get_default_dtype_as_scalartype()));
}
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
    if (!inside && self.device() != to.device() && self.numel()) {
        const auto& host = self.is_cpu() ? self : to;
        const bool waits = !(non_blocking && is_pinned(host.data_ptr()));
        const char* way = self.is_cpu() ? "to device" : "to host";
        region().note(std::string("copy: ") + way + " " + std::to_string(self.numel() * self.itemsize()));
        if (waits) region().note(std::string("wait: copy ") + way);
    }
    Opened opened;
    Inside within;
    auto target = on_host(to);
    target.copy_(on_host(self));
    return to;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
    to.resize_(self.sizes());
    return copy_from(self, to, false);
}
at::Scalar item(const at::Tensor& self) {
    if (!inside) region().note("wait: item");
    Opened opened;
    return at::_local_scalar_dense(on_host(self));
}
const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
    Opened opened;
    return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), format);
}
at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
    return at::native::as_strided_tensorimpl(
        self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
        offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}
at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
    return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}
at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
    return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}
at::Tensor& set_storage(at::Tensor& self, at::Storage from, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
    return at::native::set_storage_cpu_(self, from, offset.expect_int(), C10_AS_INTARRAYREF_SLOW(size),
                                        C10_AS_INTARRAYREF_SLOW(stride));
}
void record_stream(at::Tensor& self, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", item);
    m.impl("resize_", resize);
    m.impl("as_strided", as_strided);
    m.impl("view", view);
    m.impl("_reshape_alias", reshape_alias);
    m.impl("set_.source_Storage_storage_offset", set_storage);
    m.impl("unfold", at::native::unfold);
    m.impl("record_stream", record_stream);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

const bool registered = [] {
    c10::SetAllocator(KIND, &device_memory);
    at::RegisterPrivateUse1HooksInterface(&hooks);
    return true;
}();

Opened* held_open = nullptr;

}  // namespace

// -- for the tests, by ctypes ------------------------------------------------------------------------------------------
extern "C" {
const char* fake_events() {
    static std::string copy;
    std::lock_guard<std::recursive_mutex> held(region().lock);
    copy.swap(region().events);
    region().events.clear();
    return copy.c_str();
}
void fake_note(const char* event) { region().note(event); }
void fake_open() { held_open = new Opened; }
void fake_close() { delete held_open; }
size_t fake_base() { return size_t(region().base); }
size_t fake_used() { return region().used; }
size_t fake_live() { return region().live; }
void fake_limit(size_t bytes) { region().limit = bytes ? bytes : RESERVED; }
long long fake_stream() { return current_stream; }
}
