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
    static constexpr Key LAST = ~Key(0);
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

constexpr int DIGIT_BITS = 11;  // most of a digit: 2048 counters stay in the first-level cache
constexpr int DIGITS = 1 << DIGIT_BITS;
// Fewer items are sorted by one thread: several would write into the same cache lines, since a digit has few items each.
constexpr int64_t SERIAL_ITEMS = 1 << 16;

// How the bits in which keys differ are cut into digits.
struct DigitPlan {
    int passes, bits;
    explicit DigitPlan(int key_bits)
        : passes((key_bits + DIGIT_BITS - 1) / DIGIT_BITS),
          bits(passes ? (key_bits + passes - 1) / passes : 0) {}
    int digits() const { return 1 << bits; }
};

// Makes counts of items, [threads][digits], into places: by digit, then by thread.
inline void counts_to_places(int32_t* counts, int threads, int digits) {
    int32_t total = 0;
    for (int digit = 0; digit < digits; ++digit)
        for (int thread = 0; thread < threads; ++thread) {
            int32_t& place = counts[int64_t(thread) * digits + digit];
            const int32_t here = place;
            place = total;
            total += here;
        }
}

// Sorts items by key; `swap` is as large. Only the bits in which keys differ cost passes. False when memory has run out.
template <class T>
inline bool sort_items(SortItem<T>*& items, SortItem<T>*& swap, int64_t count, int threads,
                       Buffer<int32_t>& counts) {
    using Item = SortItem<T>;
    using Key = typename Item::Key;
    if (count < SERIAL_ITEMS) threads = 1;
    if (!counts.resize(int64_t(threads) * DIGITS)) return false;
    Key low = Item::LAST, high = 0;
    for (int64_t i = 0; i < count; ++i) {
        low = items[i].key < low ? items[i].key : low;
        high = items[i].key > high ? items[i].key : high;
    }
    int key_bits = 0;
    while (key_bits < int(8 * sizeof(Key)) && count && (high - low) >> key_bits) ++key_bits;
    const DigitPlan plan(key_bits);
    const int digits = plan.digits();
    for (int pass = 0; pass < plan.passes; ++pass) {
        const int shift = pass * plan.bits;
        const auto digit_of = [=](const Item& item) { return (item.key - low) >> shift & Key(digits - 1); };
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(count, thread, parts);
            int32_t* const mine = &counts[int64_t(thread) * digits];
            std::memset(mine, 0, size_t(digits) * sizeof *mine);
            for (int64_t i = range.begin; i < range.end; ++i) ++mine[digit_of(items[i])];
        });
        counts_to_places(counts.data, threads, digits);
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(count, thread, parts);
            int32_t* const place = &counts[int64_t(thread) * digits];
            for (int64_t i = range.begin; i < range.end; ++i) swap[place[digit_of(items[i])]++] = items[i];
        });
        Item* const sorted = swap;
        swap = items;
        items = sorted;
    }
    return true;
}

SPLAT_END_ISA
