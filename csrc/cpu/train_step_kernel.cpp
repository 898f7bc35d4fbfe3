// A whole training step in one call. The kernels are those of the six ops; what is spared is everything between them: the
// caller's work, memory that is new at each step, and threads that fall asleep meanwhile. For small pictures that is a
// seventh of the step.
#include "context.h"
#include "kernels.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int CHANNELS = 3;

enum StepSlot { STEP_SCREEN, STEP_SCREEN_GRADIENT, STEP_PICTURE };

// Hands out a slot's memory in pieces, each on a cache line of its own.
template <class T>
class Pieces {
  public:
    Pieces(Context* context, int slot, int64_t numbers, int pieces)
        : next_(
              static_cast<T*>(context_reserve(context, slot, size_t(numbers + LINE * pieces) * sizeof(T)))) {}
    explicit operator bool() const { return next_ != nullptr; }
    T* take(int64_t numbers) {
        T* const piece = next_;
        next_ += (numbers + LINE - 1) / LINE * LINE;
        return piece;
    }

  private:
    static constexpr int64_t LINE = 64 / sizeof(T);
    T* next_;
};

template <class T>
struct TrainStep {
    const TrainStepArgs<T>& args;
    UpdateSplatsArgs<T> update;
    PhotometricLossArgs<T> loss;
    RasterizeFwdArgs<T> raster{};
    void* forward = nullptr;  // the context between the two raster passes

    explicit TrainStep(const TrainStepArgs<T>& args) : args(args), update(*args.update), loss(*args.loss) {}
    ~TrainStep() { context_release(static_cast<Context*>(forward)); }

    int run() {
        const ContextOwner scratch(CONTEXT_STEP_SCRATCH);
        if (!scratch.get() || !reserve(scratch.get()))
            return fail(STATUS_OUT_OF_MEMORY, "no memory for a step of %lld splats", (long long)update.count);
        if (const int status = project()) return status;
        if (const int status = color()) return status;
        if (const int status = rasterize_fwd(raster)) return status;
        if (const int status = photometric_loss(loss)) return status;
        if (!(loss.figures[0] - loss.figures[0] == T(0))) return STATUS_OK;
        if (const int status = rasterize_back()) return status;
        return update_splats(update);
    }

    bool reserve(Context* scratch) {
        const int64_t count = update.count, pixels = int64_t(loss.height) * loss.width;
        Pieces<T> screen(scratch, STEP_SCREEN, count * (2 + 1 + 2 + 3 + 1 + CHANNELS), 6);
        Pieces<T> gradient(scratch, STEP_SCREEN_GRADIENT, count * (3 + 1 + CHANNELS), 3);
        Pieces<T> picture(scratch, STEP_PICTURE, 2 * pixels * (CHANNELS + 1), 4);
        if (!screen || !gradient || !picture) return false;
        raster.count = count;
        raster.width = update.width;
        raster.height = update.height;
        raster.channels = CHANNELS;
        raster.background = loss.background;
        raster.context = &forward;
        raster.means2d = screen.take(2 * count);
        raster.conics = screen.take(3 * count);
        raster.opacities = screen.take(count);
        raster.features = screen.take(CHANNELS * count);
        raster.depths = screen.take(count);
        raster.depth_slopes = args.by_ray ? screen.take(2 * count) : nullptr;
        update.radii = args.radii;
        update.v_means2d = args.v_means2d;
        update.v_depths = update.v_normals = nullptr;
        update.v_conics = gradient.take(3 * count);
        update.v_opacities = gradient.take(count);
        update.v_colors = gradient.take(CHANNELS * count);
        loss.image = raster.image = picture.take(CHANNELS * pixels);
        loss.alpha = raster.alpha = picture.take(pixels);
        loss.v_image = picture.take(CHANNELS * pixels);
        loss.v_alpha = picture.take(pixels);
        return true;
    }

    int project() const {
        return project_fwd(ProjectFwdArgs<T>{update.count,
                                             update.width,
                                             update.height,
                                             update.orthographic,
                                             update.antialiased,
                                             update.dilation_px2,
                                             update.near_depth,
                                             update.means,
                                             update.log_scales,
                                             update.quats_wxyz,
                                             update.opacity_logits,
                                             update.viewmat,
                                             update.intrinsics,
                                             mutable_of(raster.means2d),
                                             mutable_of(raster.depths),
                                             mutable_of(raster.conics),
                                             mutable_of(raster.opacities),
                                             nullptr,
                                             mutable_of(raster.depth_slopes),
                                             args.radii});
    }

    int color() const {
        return sh_colors_fwd(ShColorsFwdArgs<T>{update.count, update.coefficients, update.degree,
                                                update.orthographic, update.decode, update.means, update.sh,
                                                update.viewmat, mutable_of(raster.features)});
    }

    int rasterize_back() const {
        RasterizeBwdArgs<T> back{};
        back.count = raster.count;
        back.width = raster.width;
        back.height = raster.height;
        back.channels = raster.channels;
        back.means2d = raster.means2d;
        back.conics = raster.conics;
        back.opacities = raster.opacities;
        back.features = raster.features;
        back.background = raster.background;
        back.image = raster.image;
        back.alpha = raster.alpha;
        back.v_image = loss.v_image;
        back.v_alpha = loss.v_alpha;
        back.context = forward;
        back.v_means2d = args.v_means2d;
        back.v_abs_means2d = args.v_abs_means2d;
        back.v_conics = mutable_of(update.v_conics);
        back.v_opacities = mutable_of(update.v_opacities);
        back.v_features = mutable_of(update.v_colors);
        return rasterize_bwd(back);
    }

    // The scratch that one op writes and the next ones read.
    static T* mutable_of(const T* scratch) { return const_cast<T*>(scratch); }
};

template <class T>
int run_train_step(const TrainStepArgs<T>& args) {
    if (!args.update || !args.loss || (args.update->count && (!args.radii || !args.v_means2d)))
        return fail(STATUS_BAD_ARGUMENT, "train_step: an array or structure is null");
    if (args.update->width != args.loss->width || args.update->height != args.loss->height)
        return fail(STATUS_BAD_ARGUMENT, "train_step: the camera sees %d x %d px, the picture has %d x %d",
                    int(args.update->width), int(args.update->height), int(args.loss->width),
                    int(args.loss->height));
    return TrainStep<T>(args).run();
}

}  // namespace

int train_step(const TrainStepArgs<float>& args) { return run_train_step(args); }
int train_step(const TrainStepArgs<double>& args) { return run_train_step(args); }

SPLAT_END_ISA
