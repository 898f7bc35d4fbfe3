// From splats to the tiles' lists: which splats each tile of 16x16 px blends, from front to back. The host's part, between
// the kernels, is in splat_engine/ops/_cuda/rasterize.py:
//   1. prepare_splats   a thread a splat: drop what cannot draw; record, bounds, number of tiles that the ellipse touches
//   2. (torch) stable sort of N depths, or where each pixel has its own order of N floors: the least depth that a pixel can
//      find in a splat; sums of the numbers in that order; the read-back of their total P
//   3. emit_pairs       a warp 32 successive splats of that order: a key (the tile) and the splat for each pair
//   4. (torch) stable sort of P keys of 16 bits (32 above 65 536 tiles): depth order is kept, so no key has depth in it
//   5. tile_ranges      a thread a tile: where its list begins, by bisection of the sorted keys
// No shared memory, no barriers. Splats that many tiles hold would keep a warp waiting for one lane: in emit_pairs the warp
// takes them together, a row of tiles at a time.
//
// Counting and emission must agree to the last pair, or lists would run into each other. Both ask tile_row(), which is
// compiled once and gets its numbers from memory or as they went there, so they cannot differ.
//
// Bytes, float, C channels, key 2 bytes: prepare_splats reads 28 + 4 C and writes 68 a splat; the depth sort about 100 a splat;
// emit_pairs reads 80 a splat and writes 6 a pair; the key sort about 50 a pair, and 12 to bring the splats into its order.
// Operations: about 90 a splat, and 40 a row of tiles, twice.
//
// Sources: two sorts of short keys instead of one of 64 bits: Hahlbohm et al., "Faster-GS"; exact tests of tiles and the warp's
// help for large splats: Radl et al. 2024, "StopThePop"; ellipse intervals a row of tiles: Hanson et al. 2025, "Speedy-Splat".
#include "raster.h"

SPLAT_BEGIN_ISA

// Tiles of one row of tiles, half open.
struct TileRow {
    int first, end;
};

template <class T>
SPLAT_DEVICE_CALL TileRow tile_row(RowCover<T> cover, T mean_y, int row, int tiles_x) {
    const T top = T(row * TILE) + T(0.5) - mean_y;
    const TouchedCells<Lane<T>> touched =
        touched_cells<Lane<T>>(cover, top, top + T(TILE - 1), T(TILE), tiles_x);
    const int first = int(touched.first), end = int(touched.end);
    return {first, touched.inside && end > first ? end : first};
}

template <class T>
SPLAT_DEVICE RowCover<T> cover_of(const SplatRecord<T>& record, const SplatBounds<T>& bounds) {
    return {record.mean_x,        record.u_y,     record.v_y,       bounds.inverse_u_x,
            bounds.reach_squared, bounds.reach_y, bounds.extreme_y, bounds.pad_x};
}

// ---------------------------------------------------------------------------------------------- 1. prepare_splats

template <class T>
struct Splat {
    T mean_x, mean_y, a, b, c, opacity, depth;
    T schur;             // c - b^2 / a
    T slope_x, slope_y;  // of the depth, per px
};

template <class T>
SPLAT_DEVICE Splat<T> load_splat(const PrepareSplatsArgs<T>& args, int64_t i) {
    Splat<T> s = {args.means2d[2 * i],
                  args.means2d[2 * i + 1],
                  args.conics[3 * i],
                  args.conics[3 * i + 1],
                  args.conics[3 * i + 2],
                  args.opacities[i],
                  args.depths[i],
                  T(0),
                  T(0),
                  T(0)};
    const double a = s.a, b = s.b, c = s.c;
    s.schur = T((a * c - b * b) / a);
    if (args.depth_slopes) {
        s.slope_x = args.depth_slopes[2 * i];
        s.slope_y = args.depth_slopes[2 * i + 1];
    }
    return s;
}

// Finite, with a positive definite conic and an opacity that can reach ALPHA_MIN.
template <class T>
SPLAT_DEVICE bool can_draw(const PrepareSplatsArgs<T>& args, int64_t i, const Splat<T>& s) {
    bool finite = is_finite(s.mean_x + s.mean_y + s.depth + s.a + s.b + s.c + s.opacity);
    finite &= is_finite(s.slope_x) & is_finite(s.slope_y);
    for (int k = 0; k < args.channels; ++k) finite &= is_finite(args.features[i * args.channels + k]);
    return finite && s.a > T(0) && s.schur > T(0) && s.opacity >= T(ALPHA_MIN);
}

template <class T>
SPLAT_DEVICE SplatBounds<T> bounds_of(const SplatRecord<T>& r, int tiles_x, int tiles_y, int width,
                                      int height) {
    using M = Lane<T>;
    const Extent<M> extent = splat_extent<M>(r.mean_x, r.mean_y, factor_of(r), r.log2_opacity);
    const T reach_y = extent.reach_y + extent.pad_y, reach_x = extent.reach_x + extent.pad_x;
    const T top = r.mean_y - reach_y, bottom = r.mean_y + reach_y;
    const bool inside =
        r.mean_x + reach_x > T(0) && r.mean_x - reach_x < T(width) && bottom > T(0) && top < T(height);
    const int first = int(cell_of<M>(top, TILE, tiles_y)), last = int(cell_of<M>(bottom, TILE, tiles_y));
    return {T(1) / r.u_x, extent.reach_squared,         reach_y, extent.extreme_y, extent.pad_x,
            T(first),     T(inside ? last + 1 : first), T(0)};
}

// Least depth that a pixel can find where the splat draws: over the ellipse u^2 + v^2 <= reach^2, where the depth grows by
// slope_u a unit of u and slope_v a unit of v, less what rounding can do to it. -FARTHEST where the splat is too large for T.
template <class T>
SPLAT_DEVICE T floor_of(const SplatRecord<T>& r, T depth) {
    using M = Lane<T>;
    const Extent<M> extent = splat_extent<M>(r.mean_x, r.mean_y, factor_of(r), r.log2_opacity);
    const T slope_u = r.slope_x / r.u_x, slope_v = (r.slope_y - slope_u * r.u_y) / r.v_y;
    const T fall = M::sqrt(extent.reach_squared * (slope_u * slope_u + slope_v * slope_v));
    const T steep_x = -M::negative_magnitude(r.slope_x), steep_y = -M::negative_magnitude(r.slope_y);
    constexpr T ROUNDING = T(8) * (sizeof(T) == 4 ? T(1.2e-7) : T(2.3e-16));
    const T terms = steep_x * extent.reach_x + steep_y * extent.reach_y - M::negative_magnitude(depth);
    const T least = depth - fall - ROUNDING * terms - steep_x * extent.pad_x - steep_y * extent.pad_y;
    return M::max(least, -T(FARTHEST));
}

template <class T>
SPLAT_DEVICE void prepare_splats(const PrepareSplatsArgs<T>& args) {
    const int64_t i = global_thread();
    if (i >= args.count) return;
    const Splat<T> s = load_splat(args, i);
    int number = 0;
    T floor = T(0);
    if (can_draw(args, i, s)) {
        const ConicFactor<T> factor = conic_factor<Lane<T>>(s.a, s.b, s.schur);
        const SplatRecord<T> record = {s.mean_x,   s.mean_y,   factor.u_x,
                                       factor.u_y, factor.v_y, Lane<T>::log2(s.opacity),
                                       s.slope_x,  s.slope_y};
        const int tiles_x = tiles_along(args.width), tiles_y = tiles_along(args.height);
        const SplatBounds<T> bounds = bounds_of(record, tiles_x, tiles_y, args.width, args.height);
        const RowCover<T> cover = cover_of(record, bounds);
        for (int row = int(bounds.first_row); row < int(bounds.end_row); ++row) {
            const TileRow tiles = tile_row(cover, record.mean_y, row, tiles_x);
            number += tiles.end - tiles.first;
        }
        reinterpret_cast<SplatRecord<T>*>(args.records)[i] = record;
        reinterpret_cast<SplatBounds<T>*>(args.bounds)[i] = bounds;
        if (args.floors) floor = floor_of(record, s.depth);
    }
    if (args.floors) args.floors[i] = floor;
    args.tile_counts[i] = number;
}

// ---------------------------------------------------------------------------------------------- 3. emit_pairs

constexpr int ALONE = 32;        // pairs that a lane writes by itself
constexpr int KEY_BIAS = 32768;  // torch's 16-bit integers have a sign

// Pairs of one splat from slot `at` on. Each row's tiles are dealt to `lanes` lanes, of which this is number `lane`.
template <class T>
SPLAT_DEVICE void write_pairs(const EmitPairsArgs<T>& args, int splat, int64_t at, int lane, int lanes) {
    const SplatRecord<T> record = record_of(args.records, splat);
    const SplatBounds<T> bounds = reinterpret_cast<const SplatBounds<T>*>(args.bounds)[splat];
    const RowCover<T> cover = cover_of(record, bounds);
    const int tiles_x = tiles_along(args.width);
    for (int row = int(bounds.first_row); row < int(bounds.end_row); ++row) {
        const TileRow tiles = tile_row(cover, record.mean_y, row, tiles_x);
        for (int x = tiles.first + lane; x < tiles.end; x += lanes) {
            const int64_t slot = at + (x - tiles.first);
            const int tile = row * tiles_x + x;
            if (args.key_bytes == 2)
                static_cast<int16_t*>(args.keys)[slot] = int16_t(tile - KEY_BIAS);
            else
                static_cast<int32_t*>(args.keys)[slot] = tile;
            args.splats[slot] = splat;
        }
        at += tiles.end - tiles.first;
    }
}

template <class T>
SPLAT_DEVICE void emit_pairs(const EmitPairsArgs<T>& args) {
    const int64_t rank = global_thread();
    const int lane = int(threadIdx.x) % WARP;
    const bool real = rank < args.count;
    const int splat = real ? int(args.order[rank]) : 0;
    const int64_t begin = real && rank > 0 ? args.pair_ends[rank - 1] : 0;
    const int64_t number = real ? args.pair_ends[rank] - begin : 0;
    if (number > 0 && number <= ALONE) write_pairs(args, splat, begin, 0, 1);
    unsigned many = __ballot_sync(FULL_WARP, number > ALONE);
    while (many) {
        const int source = __ffs(int(many)) - 1;
        many &= many - 1;
        write_pairs(args, __shfl_sync(FULL_WARP, splat, source), __shfl_sync(FULL_WARP, begin, source), lane,
                    WARP);
    }
}

// ---------------------------------------------------------------------------------------------- 5. tile_ranges

template <class T>
SPLAT_DEVICE int tile_of(const TileRangesArgs<T>& args, int64_t pair) {
    return args.key_bytes == 2 ? static_cast<const int16_t*>(args.keys)[pair] + KEY_BIAS
                               : static_cast<const int32_t*>(args.keys)[pair];
}

template <class T>
SPLAT_DEVICE void tile_ranges(const TileRangesArgs<T>& args) {
    const int64_t tile = global_thread();
    if (tile > args.tiles) return;
    int64_t first = 0, end = args.pairs;  // the first pair of this tile or a later one lies in [first, end]
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        if (tile_of(args, middle) < tile)
            first = middle + 1;
        else
            end = middle;
    }
    args.tile_starts[tile] = first;
}

SPLAT_END_ISA

SPLAT_KERNEL(prepare_splats, splat::SPLAT_ISA::prepare_splats, PrepareSplatsArgs, 256)
SPLAT_KERNEL(emit_pairs, splat::SPLAT_ISA::emit_pairs, EmitPairsArgs, 256)
SPLAT_KERNEL(tile_ranges, splat::SPLAT_ISA::tile_ranges, TileRangesArgs, 256)
