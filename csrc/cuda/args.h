// The argument structures of kernels whose fields no CPU op has: one template a structure, as in csrc/include/op_args.h.
// splat_engine/ops/_cuda/structs.py mirrors it field by field.
#pragma once

#include "../include/op_args.h"

namespace splat {

// ------------------------------------------------------------------------------------------ tiles.cu, rasterize_*.cu
// P pairs of a splat and a tile; tiles are numbered row by row. Records and bounds are SplatRecord and SplatBounds of raster.h.

template <class T>
struct PrepareSplatsArgs {
    int64_t count;  // N splats
    int32_t width;  // px
    int32_t height;
    int32_t channels;
    int32_t reserved;      // 0
    const T* means2d;      // [N,2] px
    const T* conics;       // [N,3] px^-2
    const T* opacities;    // [N]
    const T* features;     // [N,channels]
    const T* depths;       // [N]
    T* records;            // out [N,8]; undefined where tile_counts is 0, as bounds
    T* bounds;             // out [N,8]
    int32_t* tile_counts;  // out [N] tiles that the splat touches
};

template <class T>
struct EmitPairsArgs {
    int64_t count;
    int32_t width;
    int32_t height;
    int32_t key_bytes;         // 2: keys are int16_t, the tile - 32768; 4: int32_t, the tile
    int32_t reserved;          // 0
    const T* records;          // [N,8]
    const T* bounds;           // [N,8]
    const int64_t* order;      // [N] splats from front to back
    const int64_t* pair_ends;  // [N] sums of tile_counts in that order, each with its own
    void* keys;                // out [P]
    int32_t* splats;           // out [P]
};

template <class T>
struct TileRangesArgs {
    int64_t pairs;
    int32_t tiles;
    int32_t key_bytes;
    const void* keys;      // [P] sorted
    int64_t* tile_starts;  // out [tiles + 1] first pair of each tile
};

// Checkpoints: see rasterize_fwd.cu. S = P / 32 of them; B = P / 32 + tiles slots of buckets.
template <class T>
struct RasterizeTilesArgs {
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t reserved;            // 0
    const T* records;            // [N,8]
    const T* features;           // [N,channels]
    const T* background;         // [channels] or null
    const int64_t* tile_starts;  // [tiles + 1]
    const int32_t* pairs;        // [P] splats of each tile from front to back
    T* image;                    // out [H,W,channels]
    T* alpha;                    // out [H,W]
    T* checkpoints;              // out [S,1+C,256]
    int32_t*
        patch_buckets;  // out [tiles,8] buckets that each patch entered; null: nothing is saved for a backward
    int32_t* bucket_tiles;  // out [B] tile of each slot
};

template <class T>
struct RasterizeBucketsArgs {
    int64_t buckets;  // B
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t reserved;              // 0
    const T* records;              // [N,8]
    const T* features;             // [N,channels]
    const int64_t* tile_starts;    // [tiles + 1]
    const int32_t* pairs;          // [P]
    const T* checkpoints;          // [S,1+C,256]
    const int32_t* patch_buckets;  // [tiles,8]
    const int32_t* bucket_tiles;   // [B]
    const T* image;                // [H,W,channels] as the forward wrote it
    const T* alpha;                // [H,W] as the forward wrote it
    const T* v_image;              // [H,W,channels]
    const T* v_alpha;              // [H,W] or null (zero)
    T* sums;                       // [N,16] lines of footprint.h; added to
};

template <class T>
struct FinishSplatsArgs {
    int64_t count;
    int32_t channels;
    int32_t reserved;    // 0
    const T* records;    // [N,8]
    const T* opacities;  // [N]
    const T* sums;       // [N,16]
    T* v_means2d;        // out [N,2]
    T* v_conics;         // out [N,3]
    T* v_opacities;      // out [N]
    T* v_features;       // out [N,channels]
    T* v_abs_means2d;    // out [N,2] or null
};

}  // namespace splat
