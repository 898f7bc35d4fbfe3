// What binning and both raster passes share: tiles, patches and buckets, and what is kept of a splat.
//
// A tile is 16x16 px. Its eight patches of 8x4 px, numbered row by row, are a warp's pixels each: pixel `lane` of a patch lies at
// column lane % 8 and row lane / 8. A bucket is 32 successive splats of a tile's list.
#pragma once

#include "../include/footprint.h"
#include "args.h"
#include "device.h"

SPLAT_BEGIN_ISA

constexpr int TILE = 16;  // px a side
constexpr int TILE_PIXELS = TILE * TILE;
constexpr int PATCH_WIDTH = 8, PATCH_HEIGHT = 4;  // px
constexpr int PATCHES_ACROSS = TILE / PATCH_WIDTH;
constexpr int PATCHES = TILE_PIXELS / WARP;
constexpr int BUCKET = WARP;
static_assert(PATCH_WIDTH * PATCH_HEIGHT == WARP, "a pixel a lane");

SPLAT_DEVICE int tiles_along(int pixels) { return (pixels + TILE - 1) / TILE; }

// A depth behind all others that still is a number in float; those on a ray are kept within it.
constexpr double FARTHEST = 3e38;

// What blending needs of one splat; 32 bytes in float.
template <class T>
struct alignas(16) SplatRecord {
    T mean_x, mean_y;  // px
    T u_x, u_y, v_y;   // conic factor (blend.h)
    T log2_opacity;
    T slope_x, slope_y;  // of the depth, per px; 0 where all pixels have one order
};

// What binning needs of one splat besides its record; 32 bytes in float. Whole numbers of tiles are exact in either type.
template <class T>
struct alignas(16) SplatBounds {
    T inverse_u_x, reach_squared;
    T reach_y, extreme_y, pad_x;  // px
    T first_row, end_row;         // rows of tiles, half open
    T unused;
};
static_assert(sizeof(SplatRecord<float>) == 32 && sizeof(SplatBounds<float>) == 32, "eight numbers each");

template <class T>
SPLAT_DEVICE const SplatRecord<T>& record_of(const T* records, int64_t splat) {
    return reinterpret_cast<const SplatRecord<T>*>(records)[splat];
}

template <class T>
SPLAT_DEVICE ConicFactor<T> factor_of(const SplatRecord<T>& record) {
    return {record.u_x, record.u_y, record.v_y};
}

// Corner of a patch of a tile, px.
struct PatchCorner {
    int x, y;
};
SPLAT_DEVICE PatchCorner patch_corner(int tile, int patch, int tiles_x) {
    return {tile % tiles_x * TILE + patch % PATCHES_ACROSS * PATCH_WIDTH,
            tile / tiles_x * TILE + patch / PATCHES_ACROSS * PATCH_HEIGHT};
}

// Where a tile's slots begin, in a launch whose first tile is first_tile. Checkpoint k >= 1 of a tile has slot k - 1 after
// `checkpoints`, its bucket b slot b after `buckets`. They need no sums over tiles: with s and n the pairs before the tile and
// in it, floor((s + n) / 32) >= floor(s / 32) + floor(n / 32), so tiles do not overlap.
struct TileSlots {
    int64_t checkpoints, buckets;
};
SPLAT_DEVICE TileSlots tile_slots(const int64_t* tile_starts, int tile, int first_tile) {
    const int64_t whole = (tile_starts[tile] - tile_starts[first_tile]) / BUCKET;
    return {whole, whole + (tile - first_tile)};
}

// Whether a splat draws anything in a patch: the ellipse against the rectangle of pixel centres.
template <class T>
SPLAT_DEVICE bool touches_patch(const RectangleTest<Lane<T>>& test, const ConicFactor<T>& factor,
                                T log2_opacity, T mean_x, T mean_y, PatchCorner corner) {
    const T left = T(corner.x) + T(0.5) - mean_x, top = T(corner.y) + T(0.5) - mean_y;
    return touches_rectangle<Lane<T>>(test, factor, reach_squared<Lane<T>>(log2_opacity), left,
                                      left + T(PATCH_WIDTH - 1), top, top + T(PATCH_HEIGHT - 1));
}

// Features that a splat or pixel has in memory; those that only the kernel has are 0.
template <int C, class T>
SPLAT_DEVICE void load_channels(const T* from, int channels, T* values) {
#pragma unroll
    for (int k = 0; k < C; ++k) values[k] = k < channels ? from[k] : T(0);
}

SPLAT_END_ISA

// One kernel a number of channels. Body<C>::run<T> is the kernel; what has fewer channels than C runs in it too.
#define SPLAT_CHANNEL_KERNELS(name, Body, Args, threads)                   \
    SPLAT_KERNEL(name##_c1, splat::SPLAT_ISA::Body<1>::run, Args, threads) \
    SPLAT_KERNEL(name##_c3, splat::SPLAT_ISA::Body<3>::run, Args, threads) \
    SPLAT_KERNEL(name##_c4, splat::SPLAT_ISA::Body<4>::run, Args, threads) \
    SPLAT_KERNEL(name##_c7, splat::SPLAT_ISA::Body<7>::run, Args, threads) \
    SPLAT_KERNEL(name##_c8, splat::SPLAT_ISA::Body<8>::run, Args, threads)
