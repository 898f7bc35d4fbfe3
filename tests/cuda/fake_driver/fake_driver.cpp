// A stand-in for NVIDIA's driver: libcuda.so.1 with the functions that splat_engine/ops/_cuda/driver.py calls. It computes
// nothing. It writes one line a call to $FAKE_CUDA_LOG, so that a test sees what a card would have been given:
//
//   load CONTEXT MODULE FNV1A          of the image's first FAKE_CUDA_IMAGE_BYTES bytes
//   function CONTEXT MODULE FUNCTION NAME
//   shared FUNCTION BYTES
//   launch CONTEXT FUNCTION GX GY GZ BX BY BZ SHARED STREAM PARAMETERS     (hexadecimal, FAKE_CUDA_PARAMETER_BYTES of them)
//
// The environment says what it pretends: FAKE_CUDA_VERSION (12080), FAKE_CUDA_CARDS, compute capabilities one a card
// ("86 120"), and FAKE_CUDA_FAIL, a function and the code that it returns ("cuLaunchKernel 700").
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_FOUND = 500;

struct Result {
    int code;
    const char* name;
    const char* words;
};

constexpr Result RESULTS[] = {
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

std::mutex mutex;
std::vector<std::string> functions;        // handle - 1 to "module name"
thread_local std::vector<void*> contexts;  // the stack of this thread
int modules = 0;

std::string setting(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value ? value : otherwise;
}

std::vector<int> cards() {
    std::vector<int> found;
    const std::string text = setting("FAKE_CUDA_CARDS", "86");
    for (size_t at = 0; at < text.size();
         at = text.find(' ', at) == std::string::npos ? text.size() : text.find(' ', at) + 1)
        found.push_back(std::atoi(text.c_str() + at));
    return found;
}

// The code that a function is to fail with, 0 if it is to work.
int failure(const char* function) {
    const std::string text = setting("FAKE_CUDA_FAIL", "");
    const size_t space = text.find(' ');
    return text.substr(0, space) == function ? std::atoi(text.c_str() + space + 1) : 0;
}

void* current() { return contexts.empty() ? nullptr : contexts.back(); }

void note(const std::string& line) {
    const std::string path = setting("FAKE_CUDA_LOG", "");
    if (path.empty()) return;
    FILE* file = std::fopen(path.c_str(), "a");
    std::fputs((line + "\n").c_str(), file);
    std::fclose(file);
}

std::string words(std::initializer_list<uint64_t> numbers) {
    std::string text;
    for (uint64_t number : numbers) text += " " + std::to_string(number);
    return text;
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

template <class T>
T handle(uint64_t value) {
    return reinterpret_cast<T>(value);
}

const Result* result(int code) {
    for (const Result& each : RESULTS)
        if (each.code == code) return &each;
    return nullptr;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
    if (const int code = failure("cuInit")) return code;
    return cards().empty() ? NO_DEVICE : 0;
}

int cuDriverGetVersion(int* version) {
    *version = std::atoi(setting("FAKE_CUDA_VERSION", "12080").c_str());
    return 0;
}

int cuGetErrorName(int code, const char** text) {
    *text = result(code) ? result(code)->name : nullptr;
    return *text ? 0 : 1;
}

int cuGetErrorString(int code, const char** text) {
    *text = result(code) ? result(code)->words : nullptr;
    return *text ? 0 : 1;
}

int cuDeviceGetCount(int* count) {
    *count = int(cards().size());
    return 0;
}

int cuDeviceGet(int* device, int ordinal) {
    if (ordinal < 0 || ordinal >= int(cards().size())) return INVALID_DEVICE;
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char* name, int bytes, int device) {
    std::snprintf(name, size_t(bytes), "Fake %d", cards().at(size_t(device)));
    return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
    const int capability = cards().at(size_t(device));
    if (attribute != 75 && attribute != 76) return 1;
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (const int code = failure("cuDevicePrimaryCtxRetain")) return code;
    *context = handle<void*>(0xc0000 + uint64_t(device));
    return 0;
}

int cuCtxGetCurrent(void** context) {
    *context = current();
    return 0;
}

int cuCtxPushCurrent_v2(void* context) {
    contexts.push_back(context);
    return 0;
}

int cuCtxPopCurrent_v2(void** context) {
    if (contexts.empty()) return INVALID_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    return 0;
}

int cuModuleLoadData(void** module, const void* image) {
    if (const int code = failure("cuModuleLoadData")) return code;
    if (!current()) return INVALID_CONTEXT;
    const int bytes = std::atoi(setting("FAKE_CUDA_IMAGE_BYTES", "64").c_str());
    uint64_t hash = 14695981039346656037ull;
    for (int i = 0; i < bytes; ++i)
        hash = (hash ^ static_cast<const unsigned char*>(image)[i]) * 1099511628211ull;
    const std::lock_guard<std::mutex> lock(mutex);
    *module = handle<void*>(uint64_t(++modules));
    note("load" + words({number(current()), number(*module), hash}));
    return 0;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
    if (!current()) return INVALID_CONTEXT;
    const std::lock_guard<std::mutex> lock(mutex);
    functions.push_back(name);
    *function = handle<void*>(0xf0000 + uint64_t(functions.size()));
    note("function" + words({number(current()), number(module), number(*function)}) + " " + name);
    return 0;
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
    if (attribute != 8) return 1;
    const std::lock_guard<std::mutex> lock(mutex);
    note("shared" + words({number(function), uint64_t(value)}));
    return 0;
}

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** parameters, void** extra) {
    if (const int code = failure("cuLaunchKernel")) return code;
    if (!current()) return INVALID_CONTEXT;
    if (extra) return 1;
    const int bytes = std::atoi(setting("FAKE_CUDA_PARAMETER_BYTES", "0").c_str());
    std::string hexadecimal;
    for (int i = 0; i < bytes; ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(parameters[0])[i]);
        hexadecimal += digits;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    note("launch" +
         words({number(current()), number(function), gx, gy, gz, bx, by, bz, shared, number(stream)}) + " " +
         hexadecimal);
    return 0;
}
}
