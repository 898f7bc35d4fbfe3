// Stable least-significant-digit radix sort of depth keys, threaded; its result does not depend on the thread count.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels.h"

SPLAT_BEGIN_ISA

// A depth as an unsigned number of the same order, with the splat's index.
template <class T>
struct SortItem;

template <>
struct SortItem<float> {
    using Key = uint32_t;
    static constexpr Key SIGN = Key(1) << 31;
    static constexpr Key LAST = ~Key(0);  // behind every finite depth
    Key key;
    int32_t index;

    // Negative numbers: all bits flipped; others: the sign bit. -0 is made +0 first, as they are equal depths.
    static inline Key key_of(float depth) {
        Key bits;
        std::memcpy(&bits, &depth, sizeof bits);
        if (bits == SIGN) bits = 0;
        return bits & SIGN ? ~bits : bits | SIGN;
    }
};

template <>
struct SortItem<double> {
    using Key = uint64_t;
    static constexpr Key SIGN = Key(1) << 63;
    static constexpr Key LAST = ~Key(0);
    Key key;
    int32_t index;

    static inline Key key_of(double depth) {
        Key bits;
        std::memcpy(&bits, &depth, sizeof bits);
        if (bits == SIGN) bits = 0;
        return bits & SIGN ? ~bits : bits | SIGN;
    }
};

constexpr int DIGIT_BITS = 11;  // 3 passes over 32 bits; 2048 counters stay in the first-level cache
constexpr int DIGITS = 1 << DIGIT_BITS;

// Sorts items by key; `swap` is as large. Digits that all items share cost no pass. False when memory has run out.
template <class T>
inline bool sort_items(SortItem<T>*& items, SortItem<T>*& swap, int64_t count, int threads,
                       Buffer<int32_t>& counts) {
    using Item = SortItem<T>;
    if (!counts.resize(int64_t(threads) * DIGITS)) return false;
    for (int shift = 0; shift < int(8 * sizeof(typename Item::Key)); shift += DIGIT_BITS) {
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(count, thread, parts);
            int32_t* mine = &counts[int64_t(thread) * DIGITS];
            std::memset(mine, 0, DIGITS * sizeof *mine);
            for (int64_t i = range.begin; i < range.end; ++i) ++mine[items[i].key >> shift & (DIGITS - 1)];
        });
        int64_t total = 0;
        bool shared = false;
        for (int digit = 0; digit < DIGITS && !shared; ++digit) {
            const int64_t before = total;
            for (int thread = 0; thread < threads; ++thread) {
                int32_t& place = counts[int64_t(thread) * DIGITS + digit];
                const int32_t here = place;
                place = int32_t(total);
                total += here;
            }
            shared = total - before == count;
        }
        if (shared) continue;
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(count, thread, parts);
            int32_t* place = &counts[int64_t(thread) * DIGITS];
            for (int64_t i = range.begin; i < range.end; ++i)
                swap[place[items[i].key >> shift & (DIGITS - 1)]++] = items[i];
        });
        Item* const sorted = swap;
        swap = items;
        items = sorted;
    }
    return true;
}

SPLAT_END_ISA
