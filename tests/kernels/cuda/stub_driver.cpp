/* A libcuda that runs nothing: it writes down every call with its arguments, and fails where it was told to.
   Memory of the device is the host's. Each thread has its own stack of the contexts that it has entered. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define API extern "C" __attribute__((visibility("default"))) int
#define CALL(...) do { note(__VA_ARGS__); int wrong = failure(__func__); if (wrong) return wrong; } while (0)

static char calls[1 << 16];
static char failing[64];
static int failing_with, version = 12080, words = 3;
static __thread int depth;
static __thread void* contexts[64];

static void note(const char* format, ...) {
    size_t length = strlen(calls);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(calls + length, sizeof calls - length, format, arguments);
    va_end(arguments);
    strcat(calls, "\n");
}
static int failure(const char* name) { return strcmp(name, failing) ? 0 : failing_with; }

extern "C" __attribute__((visibility("default"))) const char* stub_calls(void) { return calls; }
API stub_reset(int new_version, int number_of_words) {
    calls[0] = failing[0] = 0;
    version = new_version, words = number_of_words, depth = 0;
    return 0;
}
API stub_fail(const char* name, int number) { snprintf(failing, sizeof failing, "%s", name); return failing_with = number, 0; }
API stub_depth(void) { return depth; }

API cuInit(unsigned flags) { CALL("init %u", flags); return 0; }
API cuDriverGetVersion(int* result) { *result = version; return 0; }
API cuDeviceGet(int* device, int ordinal) { CALL("device %d", ordinal); *device = 100 + ordinal; return 0; }
API cuDeviceGetAttribute(int* result, int attribute, int device) {
    *result = attribute == 16 ? 132 : attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
    return device < 100;
}
API cuDevicePrimaryCtxRetain(void** context, int device) {
    CALL("retain %d", device);
    *context = (void*)(intptr_t)(0x7000000000000000 + device);
    return 0;
}
API cuCtxGetCurrent(void** context) { *context = depth ? contexts[depth - 1] : 0; return 0; }
API cuCtxPushCurrent_v2(void* context) { contexts[depth++] = context; return 0; }
API cuCtxPopCurrent_v2(void** context) { *context = contexts[--depth]; return 0; }
API cuModuleLoadData(void** module, const char* image) {
    CALL("load %.8s in %lx", image, depth ? (long)contexts[depth - 1] : 0L);
    *module = (void*)0x7100000000000000;
    return 0;
}
API cuModuleGetFunction(void** function, void* module, const char* name) {
    CALL("function %s of %lx", name, (long)module);
    *function = (void*)(0x7200000000000000 + strlen(name));
    return 0;
}
static void started(const char* way, void* function, const unsigned* shape, void* stream, long long** parameters) {
    note("%s %ld grid %u %u %u block %u %u %u shared %u stream %ld in %lx", way, (long)function - 0x7200000000000000,
         shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], shape[6], (long)stream,
         depth ? (long)contexts[depth - 1] : 0L);
    for (int i = 0; i < words; ++i) note("word %lld", *parameters[i]);
}
API cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** parameters, void** extra) {
    const unsigned shape[] = {gx, gy, gz, bx, by, bz, shared};
    if (parameters || extra[0] != (void*)1 || extra[2] != (void*)2 || extra[4]) return 1;
    const long long count = *(size_t*)extra[3] / 8;
    if (count != words || *(size_t*)extra[3] % 8) return 1;
    long long* each[64];
    for (int i = 0; i < count; ++i) each[i] = (long long*)extra[1] + i;
    started("launch", f, shape, stream, each);
    return failure("cuLaunchKernel");
}
API cuLaunchCooperativeKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned shared, void* stream, void** parameters) {
    const unsigned shape[] = {gx, gy, gz, bx, by, bz, shared};
    started("together", f, shape, stream, (long long**)parameters);
    return failure("cuLaunchCooperativeKernel");
}
API cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
    CALL("to device %zu stream %ld", bytes, (long)stream);
    memcpy(to, from, bytes);
    return 0;
}
API cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
    CALL("to host %zu stream %ld", bytes, (long)stream);
    memcpy(to, from, bytes);
    return 0;
}
API cuStreamSynchronize(void* stream) { CALL("wait %ld", (long)stream); return 0; }
API cuGetErrorName(int number, const char** text) { *text = number == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" : "CUDA_ERROR"; return 0; }
API cuGetErrorString(int number, const char** text) { *text = "what the driver says"; return number == 999; }
