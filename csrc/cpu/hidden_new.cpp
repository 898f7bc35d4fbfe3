// Own operator new and delete, hidden in the library, where the build defines SPLAT_HIDDEN_NEW: for macOS by zig.
//
// zig links its C++ library in, and its linker for macOS exports that library's operators as weak definitions, which the
// system then binds to whatever a process has loaded before. Linux has a version script against that, Windows exports
// nothing unasked. Defined here, and compiled with -fvisibility-global-new-delete=force-hidden, they stay inside. All of
// them: a single one that is missing would bring the others' exported versions along.
#ifdef SPLAT_HIDDEN_NEW

#include <cstdlib>
#include <new>

namespace {

void* plain(std::size_t size) noexcept { return std::malloc(size ? size : 1); }

void* aligned(std::size_t size, std::align_val_t alignment) noexcept {
    const std::size_t least = sizeof(void*), asked = std::size_t(alignment);
    void* memory = nullptr;
    return posix_memalign(&memory, asked < least ? least : asked, size ? size : 1) == 0 ? memory : nullptr;
}

void* or_throw(void* memory) {
    if (!memory) throw std::bad_alloc();
    return memory;
}

}  // namespace

using Size = std::size_t;
using Alignment = std::align_val_t;
using NoThrow = const std::nothrow_t&;

void* operator new(Size size) { return or_throw(plain(size)); }
void* operator new[](Size size) { return or_throw(plain(size)); }
void* operator new(Size size, NoThrow) noexcept { return plain(size); }
void* operator new[](Size size, NoThrow) noexcept { return plain(size); }
void* operator new(Size size, Alignment alignment) { return or_throw(aligned(size, alignment)); }
void* operator new[](Size size, Alignment alignment) { return or_throw(aligned(size, alignment)); }
void* operator new(Size size, Alignment alignment, NoThrow) noexcept { return aligned(size, alignment); }
void* operator new[](Size size, Alignment alignment, NoThrow) noexcept { return aligned(size, alignment); }

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, Size) noexcept { std::free(memory); }
void operator delete[](void* memory, Size) noexcept { std::free(memory); }
void operator delete(void* memory, NoThrow) noexcept { std::free(memory); }
void operator delete[](void* memory, NoThrow) noexcept { std::free(memory); }
void operator delete(void* memory, Alignment) noexcept { std::free(memory); }
void operator delete[](void* memory, Alignment) noexcept { std::free(memory); }
void operator delete(void* memory, Size, Alignment) noexcept { std::free(memory); }
void operator delete[](void* memory, Size, Alignment) noexcept { std::free(memory); }
void operator delete(void* memory, Alignment, NoThrow) noexcept { std::free(memory); }
void operator delete[](void* memory, Alignment, NoThrow) noexcept { std::free(memory); }

#endif
