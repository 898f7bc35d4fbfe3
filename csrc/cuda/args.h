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
    int32_t reserved;       // 0
    const T* means2d;       // [N,2] px
    const T* conics;        // [N,3] px^-2
    const T* opacities;     // [N]
    const T* features;      // [N,channels]
    const T* depths;        // [N]
    const T* depth_slopes;  // [N,2] per px, or null
    T* records;             // out [N,8]; undefined where tile_counts is 0, as bounds
    T* bounds;              // out [N,8]
    T* floors;              // out [N], or null where depth_slopes is: least depth that a pixel can find there
    int32_t* tile_counts;   // out [N] tiles that the splat touches
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

// A launch is for all tiles, or for a band of them: those from first_tile on. With P' pairs in them there are S = P' / 32 slots for
// checkpoints and B = P' / 32 + tiles of the band for buckets (rasterize_fwd.cu).
template <class T>
struct RasterizeTilesArgs {
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t first_tile;
    const T* records;            // [N,8]
    const T* features;           // [N,channels]
    const T* background;         // [channels] or null
    const int64_t* tile_starts;  // [tiles + 1]
    const int32_t* pairs;        // [P] splats of each tile from front to back
    T* image;        // out [H,W,channels], or null together with alpha: only checkpoints are wanted
    T* alpha;        // out [H,W]
    T* checkpoints;  // out [S,1+C,256]
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
    int32_t first_tile;
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

// ------------------------------------------------------------------------------------------ rasterize_by_ray*.cu
// Each pixel in its own order; pairs then come by the floors of their splats.

template <class T>
struct TouchedPatchesArgs {
    int32_t width;               // px
    int32_t reserved;            // 0
    const T* records;            // [N,8]
    const int64_t* tile_starts;  // [tiles + 1]
    const int32_t* pairs;        // [P]
    uint8_t* patches;            // out [P] a bit a patch of the tile: the splat touches it
};

template <class T>
struct RasterizeByRayArgs {
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t reserved;            // 0
    const T* records;            // [N,8]
    const T* features;           // [N,channels]
    const T* depths;             // [N]
    const T* floors;             // [N]
    const T* background;         // [channels] or null
    const int64_t* tile_starts;  // [tiles + 1]
    const int32_t* pairs;        // [P]
    T* image;                    // out [H,W,channels]
    T* alpha;                    // out [H,W]
    uint8_t*
        patches;  // [P]; where counts is asked for, patches whose rays have all ended before a pair are taken out
    int32_t* counts;  // out [P] bits that are left, or null: nothing is saved for a backward
    int32_t* scans;   // out [tiles] how often the list was gone through, or null
};

// A launch is for a band of tiles, those from first_tile on. A slot is a pair and one of its patches; the band has S.
template <class T>
struct RaySharesArgs {
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t first_tile;
    const T* records;            // [N,8]
    const T* features;           // [N,channels]
    const T* depths;             // [N]
    const T* floors;             // [N]
    const int64_t* tile_starts;  // [tiles + 1]
    const int32_t* pairs;        // [P]
    const uint8_t* patches;      // [P] as the forward left them
    const int64_t* slots;        // [P + 1] a pair's first slot, among those of all tiles
    const T* image;              // [H,W,channels] as the forward wrote it
    const T* alpha;              // [H,W] as the forward wrote it
    const T* v_image;            // [H,W,channels]
    const T* v_alpha;            // [H,W] or null (zero)
    T* shares;                   // in: 0; out [S,2,32] weight and dL/d(ln alpha) of each pixel of the patch
};

template <class T>
struct RasterizeByRayBwdArgs {
    int32_t width;
    int32_t height;
    int32_t channels;
    int32_t first_tile;
    const T* records;            // [N,8]
    const int64_t* tile_starts;  // [tiles + 1]
    const int32_t* pairs;        // [P]
    const uint8_t* patches;      // [P]
    const int64_t* slots;        // [P + 1]
    const T* shares;             // [S,2,32]
    const T* v_image;            // [H,W,channels]
    T* sums;                     // [N,16] lines of footprint.h; added to
};

// ------------------------------------------------------------------------------------------ both orders

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

// ------------------------------------------------------------------------------------------ project.cu, sh.cu

// The sums of project_bwd's warps to the camera's gradient.
template <class T>
struct ProjectCameraBwdArgs {
    int64_t warps;
    const double* partial;  // [16, warps]
    T* v_viewmat;           // out [4,4], or null
    T* v_intrinsics;        // out [4], or null
};

// The sums of sh_colors_bwd's warps to the camera's gradient.
template <class T>
struct ShCameraBwdArgs {
    int64_t warps;
    int32_t orthographic;
    int32_t reserved;       // 0
    const double* partial;  // [3, warps]
    const T* viewmat;       // [4,4]
    T* v_viewmat;           // out [4,4]
};

// ProjectFwdArgs and ShColorsFwdArgs in one.
template <class T>
struct ProjectColorsFwdArgs {
    int64_t count;
    int32_t width;
    int32_t height;
    int32_t orthographic;
    int32_t antialiased;
    int32_t coefficients;
    int32_t degree;
    int32_t decode;
    int32_t reserved;  // 0
    T dilation_px2;
    T near_depth;
    const T* means;
    const T* log_scales;
    const T* quats_wxyz;
    const T* opacity_logits;
    const T* sh;
    const T* viewmat;
    const T* intrinsics;
    T* means2d;
    T* depths;
    T* conics;
    T* opacities;
    T* normals;       // or null
    T* depth_slopes;  // or null
    T* radii;
    T* colors;  // 0 where culled
};

// ------------------------------------------------------------------------------------------ ssim.cu

// SsimFwdArgs, but for the mean.
template <class T>
struct SsimTilesArgs {
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t valid;
    T data_range;
    const T* image;
    const T* target;
    T* maps;  // out [3,C,H,W], or null
    T* sums;  // out [tiles]
};

template <class T>
struct SsimMeanArgs {
    int64_t tiles;
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t valid;
    const T* sums;  // [tiles]
    T* mean;        // out [1]
};

// ------------------------------------------------------------------------------------------ photometric.cu

// What the kernels of photometric.cu know of the op's arguments; each leaves some of it alone.
template <class T>
struct PhotometricArgs {
    int32_t height;
    int32_t width;
    int32_t encode;
    int32_t linear;
    T by_sign;        // weight of L1 / numbers: the gradient of |difference|, but for its sign
    T by_difference;  // 2 weight of the squared error / numbers
    T by_ssim;        // -weight of SSIM / numbers
    T by_alpha;       // weight of the alphas / pixels
    const T* image;   // as in PhotometricLossArgs, and so the next five
    const T* alpha;
    const T* target;
    const T* target_alpha;
    const T* background;
    const uint8_t* valid;
    T* maps;     // [3,3,H,W], or null: no gradient
    T* sums;     // out [blocks,4]
    T* v_image;  // out [H,W,3], or null together with v_alpha
    T* v_alpha;  // out [H,W]
};

template <class T>
struct PhotometricFiguresArgs {
    int64_t blocks;
    int32_t height;
    int32_t width;
    T l1_weight;
    T ssim_weight;
    T mse_weight;
    T alpha_weight;
    const T* sums;  // [blocks,4]
    T* figures;     // out [5]
};

}  // namespace splat
