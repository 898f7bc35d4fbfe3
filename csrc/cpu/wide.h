// Wide<T>: one number for each of several splats (or pixels), in one vector register. The T of the formulas
// in csrc/include.
//
// Built on the vector extensions of GCC and clang, so the same source serves SSE, AVX2, AVX-512 and NEON. exp
// and log of floats are polynomials over all lanes; those of doubles call the C library lane by lane (doubles
// serve the tests).
#pragma once

#include <cstdint>

#include "../include/scalar.h"

// Inlines a lambda: the vectors it works on must stay in registers.
#define SPLAT_INLINE __attribute__((always_inline))

// clang, and GCC from 12 on; older GCC has __builtin_shuffle.
#if defined(__clang__) || __GNUC__ >= 12
#define SPLAT_HAS_SHUFFLEVECTOR 1
#else
#define SPLAT_HAS_SHUFFLEVECTOR 0
#endif

SPLAT_BEGIN_ISA

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

template <class S>
struct WideTypes;
template <>
struct WideTypes<float> {
    typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));
    typedef int32_t Truth __attribute__((vector_size(VECTOR_BYTES)));  // -1 or 0 in each lane
};
template <>
struct WideTypes<double> {
    typedef double Vector __attribute__((vector_size(VECTOR_BYTES)));
    typedef int64_t Truth __attribute__((vector_size(VECTOR_BYTES)));
};

// The outcome of a comparison, one for each lane.
template <class S>
struct WideTruth {
    typename WideTypes<S>::Truth bits;

    friend SPLAT_FN WideTruth operator&(WideTruth a, WideTruth b) { return {a.bits & b.bits}; }
};

template <class S>
struct Wide {
    using Vector = typename WideTypes<S>::Vector;
    using Truth = WideTruth<S>;
    static constexpr int LANES = VECTOR_BYTES / int(sizeof(S));

    Vector v;

    Wide() = default;
    SPLAT_FN Wide(S everywhere)
        : v(everywhere - Vector{}) {}  // x - 0: every compiler makes a broadcast of it
    static SPLAT_FN Wide of(Vector vector) {
        Wide result;
        result.v = vector;
        return result;
    }
    // From and to LANES consecutive numbers, at any address.
    static SPLAT_FN Wide load(const S* from) {
        Wide result;
        __builtin_memcpy(&result.v, from, sizeof result.v);
        return result;
    }
    SPLAT_FN void store(S* to) const { __builtin_memcpy(to, &v, sizeof v); }
    // Sum over the lanes, in a fixed order.
    SPLAT_FN double sum() const {
        double total = 0;
        for (int lane = 0; lane < LANES; ++lane) total += double(v[lane]);
        return total;
    }

    SPLAT_FN Wide operator-() const { return of(-v); }
    friend SPLAT_FN Wide operator+(Wide a, Wide b) { return of(a.v + b.v); }
    friend SPLAT_FN Wide operator-(Wide a, Wide b) { return of(a.v - b.v); }
    friend SPLAT_FN Wide operator*(Wide a, Wide b) { return of(a.v * b.v); }
    friend SPLAT_FN Wide operator/(Wide a, Wide b) { return of(a.v / b.v); }
    friend SPLAT_FN Truth operator<(Wide a, Wide b) { return {a.v < b.v}; }
    friend SPLAT_FN Truth operator<=(Wide a, Wide b) { return {a.v <= b.v}; }
    friend SPLAT_FN Truth operator>(Wide a, Wide b) { return {a.v > b.v}; }
    friend SPLAT_FN Truth operator>=(Wide a, Wide b) { return {a.v >= b.v}; }
    friend SPLAT_FN Truth operator==(Wide a, Wide b) { return {a.v == b.v}; }
};

template <class S>
SPLAT_FN Wide<S> select(WideTruth<S> condition, Wide<S> yes, Wide<S> no) {
    return Wide<S>::of(condition.bits ? yes.v : no.v);
}
// Where the condition does not depend on the lane.
template <class S>
SPLAT_FN Wide<S> select(bool condition, Wide<S> yes, Wide<S> no) {
    return condition ? yes : no;
}

template <class S>
SPLAT_FN Wide<S> square_root(Wide<S> x) {
    Wide<S> result;
#if defined(__clang__)
    result.v = __builtin_elementwise_sqrt(x.v);
#else
    for (int lane = 0; lane < Wide<S>::LANES; ++lane) result.v[lane] = square_root(x.v[lane]);
#endif
    return result;
}

SPLAT_FN Wide<double> exponential(Wide<double> x) {
    for (int lane = 0; lane < Wide<double>::LANES; ++lane) x.v[lane] = __builtin_exp(x.v[lane]);
    return x;
}
SPLAT_FN Wide<double> logarithm(Wide<double> x) {
    for (int lane = 0; lane < Wide<double>::LANES; ++lane) x.v[lane] = __builtin_log(x.v[lane]);
    return x;
}

// exp(x) = 2^n exp(r), n the integer nearest to x / ln 2, |r| <= ln 2 / 2. ln 2 is subtracted in two parts
// (Cody and Waite) so that r keeps all its digits; exp(r) - 1 - r is r^2 times a polynomial of degree 4
// (minimax, Moshier's Cephes). Relative error 1e-7. Overflow gives infinity, NaN stays NaN, results below the
// least normal float are 0.
SPLAT_FN Wide<float> exponential(Wide<float> x) {
    using Float = Wide<float>;
    using Truth = WideTypes<float>::Truth;
    // Beyond these the result is infinity or 0; the clamp keeps n in the exponent's range. NaN passes.
    const Float clamped = select(x > Float(89.0f), Float(89.0f), select(x < Float(-88.0f), Float(-88.0f), x));
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const Float magic = Float(12582912.0f);
    const Float shifted = clamped * Float(1.44269504088896341f) + magic;
    const Float n = shifted - magic;
    const Float r = clamped - n * Float(0.693359375f) - n * Float(-2.12194440e-4f);
    Float p = Float(1.9875691500e-4f);
    p = p * r + Float(1.3981999507e-3f);
    p = p * r + Float(8.3334519073e-3f);
    p = p * r + Float(4.1665795894e-2f);
    p = p * r + Float(1.6666665459e-1f);
    p = p * r + Float(5.0000001201e-1f);
    p = p * r * r + r + Float(1.0f);
    // n reaches 128: two factors, 2^(n/2) and the rest
    Truth integer;
    __builtin_memcpy(&integer, &shifted.v, sizeof integer);
    integer = integer - 0x4b400000;  // the bits of 1.5 * 2^23
    const Truth half = integer >> 1, rest = integer - half;
    const Truth half_bits = (half + 127) << 23, rest_bits = (rest + 127) << 23;
    Float half_power, rest_power;
    __builtin_memcpy(&half_power.v, &half_bits, sizeof half_bits);
    __builtin_memcpy(&rest_power.v, &rest_bits, sizeof rest_bits);
    p = p * half_power * rest_power;
    return select(x < Float(-87.3f), Float(0.0f), p);
}

// A positive normal x as 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), and the polynomial of degree 8 (Cephes) in
// ln(1 + f) = f - f^2 / 2 + f^3 polynomial.
struct LogarithmParts {
    Wide<float> e, f, polynomial;
};
SPLAT_FN LogarithmParts logarithm_parts(Wide<float> x) {
    using Float = Wide<float>;
    using Truth = WideTypes<float>::Truth;
    Truth bits;
    __builtin_memcpy(&bits, &x.v, sizeof bits);
    // Counted from sqrt(1/2), the exponent field is e and the rest is the mantissa.
    const Truth exponent = (bits - 0x3f3504f3) >> 23;
    const Truth mantissa = bits - (exponent << 23);
    Float m;
    __builtin_memcpy(&m.v, &mantissa, sizeof mantissa);
    const Float f = m - Float(1.0f);
    Float p = Float(7.0376836292e-2f);
    p = p * f + Float(-1.1514610310e-1f);
    p = p * f + Float(1.1676998740e-1f);
    p = p * f + Float(-1.2420140846e-1f);
    p = p * f + Float(1.4249322787e-1f);
    p = p * f + Float(-1.6668057665e-1f);
    p = p * f + Float(2.0000714765e-1f);
    p = p * f + Float(-2.4999993993e-1f);
    p = p * f + Float(3.3333331174e-1f);
    return {Float::of(__builtin_convertvector(exponent, Float::Vector)), f, p};
}

// ln(x) = e ln 2 + ln(1 + f). Relative error 1e-7 for normal x > 0. 0 and negative numbers give NaN, infinity and NaN give
// themselves. (Subnormal numbers count as zero.)
SPLAT_FN Wide<float> logarithm(Wide<float> x) {
    using Float = Wide<float>;
    const auto [e, f, p] = logarithm_parts(x);
    const Float squared = f * f;
    const Float log_m = f * squared * p + e * Float(-2.12194440e-4f) - squared * Float(0.5f);
    const Float result = f + log_m + e * Float(0.693359375f);
    const Float least = Float(1.17549435e-38f), most = Float(3.40282347e38f);
    return select(x <= most, select(x >= least, result, Float(__builtin_nanf(""))), x);
}

SPLAT_FN Wide<double> positive_power(Wide<double> x, double exponent) {
    for (int lane = 0; lane < Wide<double>::LANES; ++lane) x.v[lane] = __builtin_pow(x.v[lane], exponent);
    return x;
}

// 2^(exponent log2 x), without the care that logarithm and exponential take of numbers out of range: some thirty
// operations. The power of 2 has the polynomial of Simd::exp2 (vec.h). Relative error
// 2e-7 (|exponent log2 x| + 1). NaN and infinity give some number.
SPLAT_FN Wide<float> positive_power(Wide<float> x, double exponent) {
    using Float = Wide<float>;
    using Truth = WideTypes<float>::Truth;
    const auto [e, f, p] = logarithm_parts(x);
    const Float squared = f * f;
    const Float log_m = f + squared * (f * p - Float(0.5f));
    const Float power = log_m * Float(float(exponent * 1.44269504088896341)) + e * Float(float(exponent));
    const Float magic = Float(12582912.0f);
    const Float shifted = power + magic;
    const Float r = power - (shifted - magic);
    Float q = Float(0.0013276471903734713f);
    q = q * r + Float(0.009675541363620772f);
    q = q * r + Float(0.05550713274031736f);
    q = q * r + Float(0.2402211972330855f);
    q = q * r + Float(0.6931469670642707f);
    q = q * r + Float(1.0000000716547885f);
    Truth scale, value;
    __builtin_memcpy(&scale, &shifted.v, sizeof scale);
    __builtin_memcpy(&value, &q.v, sizeof value);
    value = value + (scale << 23);
    __builtin_memcpy(&q.v, &value, sizeof value);
    return q;
}

// Lanes whose number first + lane lies in [begin, end).
template <class S>
SPLAT_FN WideTruth<S> between(int64_t first, int64_t begin, int64_t end) {
    WideTruth<S> result;
    for (int lane = 0; lane < Wide<S>::LANES; ++lane)
        result.bits[lane] = first + lane >= begin && first + lane < end ? -1 : 0;
    return result;
}

// Numbers `first` to `first + LANES` of a row, zero outside of [0, length).
template <class S>
SPLAT_FN Wide<S> load_padded(const S* row, int64_t first, int64_t length) {
    constexpr int LANES = Wide<S>::LANES;
    if (first >= 0 && first + LANES <= length) return Wide<S>::load(row + first);
    Wide<S> result;
    for (int lane = 0; lane < LANES; ++lane)
        result.v[lane] = first + lane >= 0 && first + lane < length ? row[first + lane] : S(0);
    return result;
}
// The counterpart; writes nothing outside of the row.
template <class S>
SPLAT_FN void store_padded(Wide<S> value, S* row, int64_t first, int64_t length) {
    constexpr int LANES = Wide<S>::LANES;
    if (first + LANES <= length) return value.store(row + first);
    for (int lane = 0; first + lane < length; ++lane) row[first + lane] = value.v[lane];
}

// -----------------------------------------------------------------------------------------------------------
// Rows to columns and back: arrays of structures in memory, one register a field in the formulas.

template <int... LANE>
struct LaneList {};
// LaneList<0, 1, ..., N - 1>
template <int N, int... LANE>
struct LaneCount : LaneCount<N - 1, N - 1, LANE...> {};
template <int... LANE>
struct LaneCount<0, LANE...> {
    using List = LaneList<LANE...>;
};

// A number that the compiler knows, as an argument.
template <int VALUE>
struct Constant {
    static constexpr int value = VALUE;
};
// step(Constant<0>), ..., step(Constant<N - 1>): a loop that is always written out, so that arrays which it indexes
// stay in registers.
template <class Step, int... NUMBER>
SPLAT_FN void repeat_for(LaneList<NUMBER...>, Step step) {
    (step(Constant<NUMBER>{}), ...);
}
template <int N, class Step>
SPLAT_FN void repeat(Step step) {
    repeat_for(typename LaneCount<N>::List{}, step);
}

// One number a pixel to one number a channel, three channels interleaved: part PART (0 to 2) of what LANES pixels give.
template <int PART, class S, int... LANE>
SPLAT_FN Wide<S> spread_lanes(Wide<S> pixels, LaneList<LANE...>) {
    constexpr int LANES = Wide<S>::LANES;
#if SPLAT_HAS_SHUFFLEVECTOR
    return Wide<S>::of(__builtin_shufflevector(pixels.v, pixels.v, ((PART * LANES + LANE) / 3)...));
#else
    using Lanes = typename WideTypes<S>::Truth;
    return Wide<S>::of(__builtin_shuffle(pixels.v, Lanes{((PART * LANES + LANE) / 3)...}));
#endif
}
template <int PART, class S>
SPLAT_FN Wide<S> spread(Wide<S> pixels) {
    return spread_lanes<PART>(pixels, typename LaneCount<Wide<S>::LANES>::List{});
}

// Exchanges the off-diagonal blocks of side STEP between two rows: lanes of `a` whose number has the bit STEP
// against lanes of `b` that have not.
template <int STEP, class S, int... LANE>
SPLAT_FN void exchange(Wide<S>& a, Wide<S>& b, LaneList<LANE...>) {
    constexpr int LANES = Wide<S>::LANES;
    const auto first = a.v, second = b.v;
#if SPLAT_HAS_SHUFFLEVECTOR
    a.v = __builtin_shufflevector(first, second, ((LANE & STEP) ? LANES + LANE - STEP : LANE)...);
    b.v = __builtin_shufflevector(first, second, ((LANE & STEP) ? LANES + LANE : LANE + STEP)...);
#else
    using Lanes = typename WideTypes<S>::Truth;
    a.v = __builtin_shuffle(first, second, Lanes{((LANE & STEP) ? LANES + LANE - STEP : LANE)...});
    b.v = __builtin_shuffle(first, second, Lanes{((LANE & STEP) ? LANES + LANE : LANE + STEP)...});
#endif
}

// One round over all pairs of rows; written out by the compiler, so that the rows stay in registers.
template <int STEP, class S, int... ROW>
SPLAT_FN void exchange_all(Wide<S>* rows, LaneList<ROW...> all) {
    (((ROW & STEP) ? void() : exchange<STEP>(rows[ROW], rows[ROW | STEP], all)), ...);
}

// Transposes LANES registers as a matrix: log2(LANES) rounds that exchange ever larger blocks.
template <int STEP, class S>
SPLAT_FN void transpose(Wide<S>* rows) {
    constexpr int LANES = Wide<S>::LANES;
    if constexpr (STEP < LANES) {
        exchange_all<STEP>(rows, typename LaneCount<LANES>::List{});
        transpose<2 * STEP>(rows);
    }
}

// Asks for the LANES rows behind those at `rows`, which the next turn of a loop over blocks of rows will want. Such loops
// go through a dozen arrays at once, more than the processor's own foresight keeps up with.
template <int WRITE, class S>
SPLAT_FN void prefetch_next_rows(const S* rows, int64_t stride) {
    constexpr int64_t LINE_NUMBERS = 64 / int64_t(sizeof(S));
    const int64_t block = Wide<S>::LANES * stride;
    for (int64_t i = 0; i < block; i += LINE_NUMBERS) __builtin_prefetch(rows + block + i, WRITE);
}

// Lane l of the result: lane Plan::lane(l) of `source`, or lane l of `kept` where that is below 0.
template <class Plan, class S, int... LANE>
SPLAT_FN Wide<S> merge(Wide<S> kept, Wide<S> source, LaneList<LANE...>) {
    constexpr int LANES = Wide<S>::LANES;
#if SPLAT_HAS_SHUFFLEVECTOR
    return Wide<S>::of(__builtin_shufflevector(kept.v, source.v,
                                               (Plan::lane(LANE) < 0 ? LANE : LANES + Plan::lane(LANE))...));
#else
    using Lanes = typename WideTypes<S>::Truth;
    return Wide<S>::of(__builtin_shuffle(kept.v, source.v,
                                         Lanes{(Plan::lane(LANE) < 0 ? LANE : LANES + Plan::lane(LANE))...}));
#endif
}

// Rows that lie one behind the other fill as many registers as they have columns. Where lane `lane` of a
// column comes from, and lane `lane` of a register.
template <int COLUMNS, int LANES, int COLUMN, int REGISTER>
struct ColumnPlan {
    static constexpr int lane(int lane) {
        return (COLUMNS * lane + COLUMN) / LANES == REGISTER ? (COLUMNS * lane + COLUMN) % LANES : -1;
    }
};
template <int COLUMNS, int LANES, int COLUMN, int REGISTER>
struct RegisterPlan {
    static constexpr int lane(int lane) {
        return (LANES * REGISTER + lane) % COLUMNS == COLUMN ? (LANES * REGISTER + lane) / COLUMNS : -1;
    }
};

// COLUMNS registers out of as many, each merged from all of them.
template <int COLUMNS, template <int, int, int, int> class Plan, bool BY_COLUMN, class S>
SPLAT_FN void rearrange(const Wide<S>* given, Wide<S>* made) {
    constexpr int LANES = Wide<S>::LANES;
    repeat<COLUMNS>([&](auto to) SPLAT_INLINE {
        Wide<S> merged = given[0];
        repeat<COLUMNS>([&](auto from) SPLAT_INLINE {
            constexpr int TO = decltype(to)::value, FROM = decltype(from)::value;
            using Chosen = Plan<COLUMNS, LANES, BY_COLUMN ? TO : FROM, BY_COLUMN ? FROM : TO>;
            merged = merge<Chosen>(merged, given[FROM], typename LaneCount<LANES>::List{});
        });
        made[decltype(to)::value] = merged;
    });
}

// Few columns, LANES rows one behind the other: whole registers are read and written, and rearranged in between.
template <int COLUMNS, class S>
SPLAT_FN void load_dense(const S* rows, Wide<S>* columns) {
    Wide<S> registers[COLUMNS];
    repeat<COLUMNS>([&](auto k) SPLAT_INLINE {
        registers[decltype(k)::value] = Wide<S>::load(rows + decltype(k)::value * Wide<S>::LANES);
    });
    rearrange<COLUMNS, ColumnPlan, true>(registers, columns);
}
template <int COLUMNS, class S>
SPLAT_FN void store_dense(const Wide<S>* columns, S* rows) {
    Wide<S> registers[COLUMNS];
    rearrange<COLUMNS, RegisterPlan, false>(columns, registers);
    repeat<COLUMNS>([&](auto k) SPLAT_INLINE {
        registers[decltype(k)::value].store(rows + decltype(k)::value * Wide<S>::LANES);
    });
}
constexpr int DENSE_COLUMNS_MAX = 8;  // more are blocks, or cost more merges than numbers

// columns[c] = field c of `count` rows (at most LANES) that are `stride` numbers apart. Missing rows repeat
// the last. Full blocks of LANES columns are transposed in registers. AHEAD: the next rows will be read as well.
template <int COLUMNS, bool AHEAD = true, class S>
SPLAT_FN void load_rows(const S* rows, int64_t stride, int count, Wide<S>* columns) {
    using T = Wide<S>;
    constexpr int LANES = T::LANES, BLOCKED = COLUMNS / LANES * LANES;
    if (count == LANES) {
        if constexpr (AHEAD) prefetch_next_rows<0>(rows, stride);
        if constexpr (COLUMNS < LANES && COLUMNS <= DENSE_COLUMNS_MAX)
            if (stride == COLUMNS) return load_dense<COLUMNS>(rows, columns);
        for (int block = 0; block < BLOCKED; block += LANES) {
            for (int lane = 0; lane < LANES; ++lane)
                columns[block + lane] = T::load(rows + lane * stride + block);
            transpose<1>(columns + block);
        }
        alignas(VECTOR_BYTES) S buffer[COLUMNS - BLOCKED + 1][LANES];
        for (int lane = 0; lane < LANES; ++lane)
            for (int c = BLOCKED; c < COLUMNS; ++c) buffer[c - BLOCKED][lane] = rows[lane * stride + c];
        for (int c = BLOCKED; c < COLUMNS; ++c) columns[c] = T::load(buffer[c - BLOCKED]);
        return;
    }
    alignas(VECTOR_BYTES) S buffer[COLUMNS][LANES];
    for (int lane = 0; lane < LANES; ++lane)
        for (int c = 0; c < COLUMNS; ++c)
            buffer[c][lane] = rows[(lane < count ? lane : count - 1) * stride + c];
    for (int c = 0; c < COLUMNS; ++c) columns[c] = T::load(buffer[c]);
}

// The counterpart. `columns` is left transposed. AHEAD: the next rows will be written as well, and are in memory.
template <int COLUMNS, bool AHEAD = true, class S>
SPLAT_FN void store_rows(Wide<S>* columns, S* rows, int64_t stride, int count) {
    using T = Wide<S>;
    constexpr int LANES = T::LANES, BLOCKED = COLUMNS / LANES * LANES;
    if (count == LANES) {
        if constexpr (AHEAD) prefetch_next_rows<1>(rows, stride);
        if constexpr (COLUMNS < LANES && COLUMNS <= DENSE_COLUMNS_MAX)
            if (stride == COLUMNS) return store_dense<COLUMNS>(columns, rows);
        for (int block = 0; block < BLOCKED; block += LANES) {
            transpose<1>(columns + block);
            for (int lane = 0; lane < LANES; ++lane)
                columns[block + lane].store(rows + lane * stride + block);
        }
        alignas(VECTOR_BYTES) S buffer[COLUMNS - BLOCKED + 1][LANES];
        for (int c = BLOCKED; c < COLUMNS; ++c) columns[c].store(buffer[c - BLOCKED]);
        for (int lane = 0; lane < LANES; ++lane)
            for (int c = BLOCKED; c < COLUMNS; ++c) rows[lane * stride + c] = buffer[c - BLOCKED][lane];
        return;
    }
    alignas(VECTOR_BYTES) S buffer[COLUMNS][LANES];
    for (int c = 0; c < COLUMNS; ++c) columns[c].store(buffer[c]);
    for (int lane = 0; lane < count; ++lane)
        for (int c = 0; c < COLUMNS; ++c) rows[lane * stride + c] = buffer[c][lane];
}

SPLAT_END_ISA
