// Runs every op of a built library on small scenes and prints sums of the results: tools/test_wheels compares them between
// platforms and instruction sets. Compiled by zig for the library's own platform.
//
//     smoke_library LIBRARY
//
// Output: "isa NAME", then a line a result: OP:RESULT:TYPE:THREADS, the sum weighted with random numbers, the sum of
// magnitudes, the count. Everything is run with one and with three threads, then by two callers with three threads each
// at the same time, who must get the very same numbers. Exit code 1, with a line on stderr, for whatever goes wrong.
//
// TO ADD AN OP: a function like run_adam, which calls it and hands each output to report.add(), and a line in run_all.
// An op of csrc/cpu/kernels.h that was not called is an error.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../csrc/cpu/kernels.h"

#if defined(_WIN32)
#define NOMINMAX
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace {

[[noreturn]] void stop(const std::string& text) {
    std::fprintf(stderr, "smoke_library: %s\n", text.c_str());
    std::fflush(nullptr);
    std::_Exit(1);  // no destructors: another caller may be in the library
}

template <class T>
const char* type_name();
template <>
const char* type_name<float>() {
    return "f32";
}
template <>
const char* type_name<double>() {
    return "f64";
}

// The library under test, reached as a program would that was built without it.
class Library {
  public:
    explicit Library(const char* path) {
#if defined(_WIN32)
        handle_ = LoadLibraryA(path);
        if (!handle_) stop(std::string("cannot load ") + path + ", error " + std::to_string(GetLastError()));
#else
        handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle_) stop(dlerror());
#endif
    }

    template <class Function>
    Function* symbol(const std::string& name) const {
#if defined(_WIN32)
        void* found = reinterpret_cast<void*>(GetProcAddress(handle_, name.c_str()));
#else
        void* found = dlsym(handle_, name.c_str());
#endif
        if (!found) stop("the library has no " + name);
        return reinterpret_cast<Function*>(found);
    }

    // Calls an op, and remembers that it was.
    template <template <class> class Args, class T>
    void call(const std::string& op, const Args<T>& args) {
        if (symbol<int64_t(const char*)>("splat_args_size")(op.c_str()) != int64_t(sizeof(Args<float>)))
            stop(op + ": its argument structure has another size in the library");
        const std::string name = "splat_" + op + "_" + type_name<T>();
        if (symbol<int(const Args<T>*)>(name)(&args) != splat::STATUS_OK)
            stop(name + ": " + symbol<const char*()>("splat_last_error")());
        std::lock_guard<std::mutex> lock(mutex_);
        called_.insert(name);
    }

    bool was_called(const std::string& name) const { return called_.count(name) != 0; }

  private:
#if defined(_WIN32)
    HMODULE handle_;
#else
    void* handle_;
#endif
    std::mutex mutex_;
    std::set<std::string> called_;
};

// Knuth's MMIX generator: std distributions differ between standard libraries.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
    double next(double low, double high) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return low + (high - low) * (double(state_ >> 11) / 9007199254740992.0);
    }
    template <class T>
    std::vector<T> array(size_t count, double low, double high) {
        std::vector<T> made(count);
        for (T& value : made) value = T(next(low, high));
        return made;
    }

  private:
    uint64_t state_;
};

struct Line {
    std::string name;
    double weighted, magnitude;
    size_t count;
    bool operator==(const Line& other) const {
        return name == other.name && weighted == other.weighted && magnitude == other.magnitude &&
               count == other.count;
    }
};

// What one caller has found.
class Report {
  public:
    explicit Report(int threads) : threads_(threads) {}
    template <class T>
    void add(const std::string& name, const std::vector<T>& values) {
        Random random(99);
        Line line{name + ":" + type_name<T>() + ":" + std::to_string(threads_), 0, 0, values.size()};
        for (T value : values) {
            line.weighted += random.next(-1, 1) * double(value);
            line.magnitude += std::fabs(double(value));
        }
        lines.push_back(line);
    }
    std::vector<Line> lines;

  private:
    int threads_;
};

// More than three times the least work that the kernels give to a thread (2048 splats), and no multiple of a vector.
constexpr int COUNT = 6203;
constexpr int WIDTH = 131, HEIGHT = 95, CHANNELS = 3;  // two bands of SSIM's rows, three of its strips
constexpr size_t PIXELS = size_t(WIDTH) * HEIGHT;

template <class T>
void run_rasterize(Library& library, Report& report) {
    Random random(1);
    std::vector<T> means2d(2 * COUNT), conics(3 * COUNT);
    for (int i = 0; i < COUNT; ++i) {
        means2d[2 * i] = T(random.next(-0.1, 1.1) * WIDTH);
        means2d[2 * i + 1] = T(random.next(-0.1, 1.1) * HEIGHT);
        conics[3 * i] = T(random.next(0.3, 2));
        conics[3 * i + 2] = T(random.next(0.3, 2));
        conics[3 * i + 1] = T(random.next(-0.25, 0.25));
    }
    const auto opacities = random.array<T>(COUNT, 0, 1), depths = random.array<T>(COUNT, 1, 2);
    const auto features = random.array<T>(COUNT * CHANNELS, -0.5, 1.5);
    const auto background = random.array<T>(CHANNELS, 0, 1);
    std::vector<T> image(PIXELS * CHANNELS), alpha(PIXELS);
    void* context = nullptr;
    library.call("rasterize_fwd",
                 splat::RasterizeFwdArgs<T>{COUNT, WIDTH, HEIGHT, CHANNELS, 0, means2d.data(), conics.data(),
                                            opacities.data(), features.data(), depths.data(),
                                            background.data(), image.data(), alpha.data(), &context});
    report.add("rasterize_fwd:image", image);
    report.add("rasterize_fwd:alpha", alpha);
    const auto v_image = random.array<T>(PIXELS * CHANNELS, -1, 1), v_alpha = random.array<T>(PIXELS, -1, 1);
    std::vector<T> v_means2d(2 * COUNT), v_conics(3 * COUNT), v_opacities(COUNT),
        v_features(COUNT * CHANNELS), v_background(CHANNELS), v_abs_means2d(2 * COUNT);
    library.call("rasterize_bwd", splat::RasterizeBwdArgs<T>{COUNT,
                                                             WIDTH,
                                                             HEIGHT,
                                                             CHANNELS,
                                                             0,
                                                             means2d.data(),
                                                             conics.data(),
                                                             opacities.data(),
                                                             features.data(),
                                                             background.data(),
                                                             image.data(),
                                                             alpha.data(),
                                                             v_image.data(),
                                                             v_alpha.data(),
                                                             context,
                                                             v_means2d.data(),
                                                             v_conics.data(),
                                                             v_opacities.data(),
                                                             v_features.data(),
                                                             v_background.data(),
                                                             v_abs_means2d.data()});
    int64_t counts[splat::RASTER_COUNTS] = {};
    library.call("raster_counts", splat::RasterCountsArgs<T>{context, 1, 0, counts});
    library.symbol<void(void*)>("splat_context_free")(context);
    // the one count that does not depend on the size of tiles and vectors
    report.add("raster_counts:blended", std::vector<T>{T(counts[splat::COUNT_BLENDED])});
    report.add("rasterize_bwd:v_means2d", v_means2d);
    report.add("rasterize_bwd:v_conics", v_conics);
    report.add("rasterize_bwd:v_opacities", v_opacities);
    report.add("rasterize_bwd:v_features", v_features);
    report.add("rasterize_bwd:v_background", v_background);
    report.add("rasterize_bwd:v_abs_means2d", v_abs_means2d);
}

// Camera from world: turned by exact numbers, four units away.
template <class T>
std::vector<T> viewmat() {
    return {T(0.6),   0,      T(0.8),  T(0.1), T(0.48), T(0.8), T(-0.36), T(-0.2),
            T(-0.64), T(0.6), T(0.48), 4,      0,       0,      0,        1};
}

template <class T>
void run_project(Library& library, Report& report) {
    for (int orthographic : {0, 1}) {
        Random random(2);
        const auto means = random.array<T>(3 * COUNT, -1.5, 1.5), quats = random.array<T>(4 * COUNT, -1, 1);
        const auto log_scales = random.array<T>(3 * COUNT, -5, -2), logits = random.array<T>(COUNT, -3, 3);
        const std::vector<T> intrinsics = {T(orthographic ? 40 : 160), T(orthographic ? 42 : 165), T(79.5),
                                           T(70.25)};
        const auto view = viewmat<T>();
        std::vector<T> means2d(2 * COUNT), depths(COUNT), conics(3 * COUNT), opacities(COUNT),
            normals(3 * COUNT), radii(2 * COUNT);
        library.call("project_fwd",
                     splat::ProjectFwdArgs<T>{COUNT, WIDTH, HEIGHT, orthographic, 1, T(0.1), T(0.01),
                                              means.data(), log_scales.data(), quats.data(), logits.data(),
                                              view.data(), intrinsics.data(), means2d.data(), depths.data(),
                                              conics.data(), opacities.data(), normals.data(), radii.data()});
        const std::string fwd = orthographic ? "project_fwd:orthographic_" : "project_fwd:";
        report.add(fwd + "means2d", means2d);
        report.add(fwd + "depths", depths);
        report.add(fwd + "conics", conics);
        report.add(fwd + "opacities", opacities);
        report.add(fwd + "normals", normals);
        report.add(fwd + "radii", radii);
        const auto v_means2d = random.array<T>(2 * COUNT, -1, 1), v_depths = random.array<T>(COUNT, -1, 1);
        const auto v_conics = random.array<T>(3 * COUNT, -1, 1), v_opacities = random.array<T>(COUNT, -1, 1);
        const auto v_normals = random.array<T>(3 * COUNT, -1, 1);
        std::vector<T> v_means(3 * COUNT), v_log_scales(3 * COUNT), v_quats(4 * COUNT), v_logits(COUNT),
            v_view(16), v_intrinsics(4);
        library.call("project_bwd", splat::ProjectBwdArgs<T>{COUNT,
                                                             WIDTH,
                                                             HEIGHT,
                                                             orthographic,
                                                             1,
                                                             T(0.1),
                                                             T(0.01),
                                                             means.data(),
                                                             log_scales.data(),
                                                             quats.data(),
                                                             logits.data(),
                                                             view.data(),
                                                             intrinsics.data(),
                                                             radii.data(),
                                                             v_means2d.data(),
                                                             v_depths.data(),
                                                             v_conics.data(),
                                                             v_opacities.data(),
                                                             v_normals.data(),
                                                             v_means.data(),
                                                             v_log_scales.data(),
                                                             v_quats.data(),
                                                             v_logits.data(),
                                                             v_view.data(),
                                                             v_intrinsics.data(),
                                                             nullptr});
        const std::string bwd = orthographic ? "project_bwd:orthographic_" : "project_bwd:";
        report.add(bwd + "v_means", v_means);
        report.add(bwd + "v_log_scales", v_log_scales);
        report.add(bwd + "v_quats_wxyz", v_quats);
        report.add(bwd + "v_opacity_logits", v_logits);
        report.add(bwd + "v_viewmat", v_view);
        report.add(bwd + "v_intrinsics", v_intrinsics);
    }
}

template <class T>
void run_sh_colors(Library& library, Report& report) {
    Random random(3);
    constexpr int COEFFICIENTS = 16;
    const auto means = random.array<T>(3 * COUNT, -1.5, 1.5);
    const auto sh = random.array<T>(3 * COEFFICIENTS * COUNT, -0.5, 0.5);
    const auto view = viewmat<T>();
    std::vector<T> colors(3 * COUNT);
    library.call("sh_colors_fwd", splat::ShColorsFwdArgs<T>{COUNT, COEFFICIENTS, 3, 0, 1, means.data(),
                                                            sh.data(), view.data(), colors.data()});
    report.add("sh_colors_fwd:colors", colors);
    const auto v_colors = random.array<T>(3 * COUNT, -1, 1);
    std::vector<T> v_sh(sh.size()), v_means(3 * COUNT), v_view(16);
    library.call("sh_colors_bwd", splat::ShColorsBwdArgs<T>{
                                      COUNT, COEFFICIENTS, 3, 0, 1, means.data(), sh.data(), view.data(),
                                      v_colors.data(), v_sh.data(), v_means.data(), v_view.data(), nullptr});
    report.add("sh_colors_bwd:v_sh", v_sh);
    report.add("sh_colors_bwd:v_means", v_means);
    report.add("sh_colors_bwd:v_viewmat", v_view);
}

template <class T>
void run_ssim(Library& library, Report& report) {
    Random random(4);
    const size_t size = PIXELS * CHANNELS;
    const auto target = random.array<T>(size, 0, 1);
    auto image = target;
    for (T& value : image) value += T(random.next(-0.2, 0.2));
    std::vector<T> mean(1), maps(3 * size), v_image(size);
    library.call("ssim_fwd", splat::SsimFwdArgs<T>{HEIGHT, WIDTH, CHANNELS, 0, T(1), image.data(),
                                                   target.data(), mean.data(), maps.data()});
    report.add("ssim_fwd:mean", mean);
    const std::vector<T> v_mean = {T(1)};
    library.call("ssim_bwd", splat::SsimBwdArgs<T>{HEIGHT, WIDTH, CHANNELS, 0, image.data(), target.data(),
                                                   maps.data(), v_mean.data(), v_image.data()});
    report.add("ssim_bwd:v_image", v_image);
}

template <class T>
void run_adam(Library& library, Report& report) {
    Random random(5);
    constexpr int ROW = 7;
    const size_t size = size_t(COUNT) * ROW;
    const auto gradient = random.array<T>(size, -1, 1);
    auto parameter = random.array<T>(size, -1, 1), exp_avg = random.array<T>(size, -0.1, 0.1);
    auto exp_avg_sq = random.array<T>(size, 0.1, 1);
    std::vector<uint8_t> visible(COUNT);
    for (uint8_t& row : visible) row = random.next(0, 1) < 0.7;
    library.call("adam_step", splat::AdamStepArgs<T>{COUNT, ROW, T(0.1), T(0.999), T(0.001), T(1e-15),
                                                     T(0.01), T(1.5), gradient.data(), visible.data(),
                                                     parameter.data(), exp_avg.data(), exp_avg_sq.data()});
    report.add("adam_step:parameter", parameter);
    report.add("adam_step:exp_avg", exp_avg);
    report.add("adam_step:exp_avg_sq", exp_avg_sq);
}

template <class T>
void run_photometric_loss(Library& library, Report& report) {
    Random random(6);
    const auto target = random.array<T>(PIXELS * CHANNELS, 0, 1),
               target_alpha = random.array<T>(PIXELS, 0.5, 1);
    auto image = target;
    for (T& value : image) value += T(random.next(-0.2, 0.2));
    const auto alpha = random.array<T>(PIXELS, 0.5, 1), background = random.array<T>(CHANNELS, 0, 1);
    std::vector<uint8_t> valid(PIXELS);
    for (uint8_t& pixel : valid) pixel = random.next(0, 1) < 0.9;
    std::vector<T> figures(5), v_image(image.size()), v_alpha(PIXELS);
    library.call("photometric_loss", splat::PhotometricLossArgs<T>{
                                         HEIGHT, WIDTH, 1, 0, T(0.8), T(0.2), T(0.1), T(0.05), image.data(),
                                         alpha.data(), target.data(), target_alpha.data(), background.data(),
                                         valid.data(), figures.data(), v_image.data(), v_alpha.data()});
    report.add("photometric_loss:figures", figures);
    report.add("photometric_loss:v_image", v_image);
    report.add("photometric_loss:v_alpha", v_alpha);
}

template <class T>
void run_update_splats(Library& library, Report& report) {
    Random random(7);
    constexpr int COEFFICIENTS = 16;
    constexpr size_t N = COUNT;
    const auto view = viewmat<T>();
    const std::vector<T> intrinsics = {T(160), T(165), T(65.5), T(47.25)};
    auto radii = random.array<T>(2 * N, -1, 5);
    for (T& radius : radii) radius = radius > 0 ? radius : 0;  // culled
    const auto v_means2d = random.array<T>(2 * N, -1, 1), v_depths = random.array<T>(N, -1, 1);
    const auto v_conics = random.array<T>(3 * N, -1, 1), v_opacities = random.array<T>(N, -1, 1);
    const auto v_normals = random.array<T>(3 * N, -1, 1), v_colors = random.array<T>(3 * N, -1, 1);
    // means, log_scales, quats_wxyz, opacity_logits, sh; then their first and their second moments
    const size_t sizes[5] = {3 * N, 3 * N, 4 * N, N, 3 * COEFFICIENTS * N};
    const double low[5] = {-1.5, -5, -1, -3, -0.5}, high[5] = {1.5, -2, 1, 3, 0.5};
    std::vector<T> parameter[5], first[5], second[5];
    for (int k = 0; k < 5; ++k) {
        parameter[k] = random.array<T>(sizes[k], low[k], high[k]);
        first[k] = random.array<T>(sizes[k], -0.1, 0.1);
        second[k] = random.array<T>(sizes[k], 0.1, 1);
    }
    const auto floors = random.array<T>(N, -5, -4);  // above some of the log-scales
    splat::UpdateSplatsArgs<T> args{};
    args.count = COUNT, args.width = WIDTH, args.height = HEIGHT;
    args.antialiased = 1, args.coefficients = COEFFICIENTS, args.degree = 3, args.decode = 1;
    args.dilation_px2 = T(0.1), args.near_depth = T(0.01);
    args.rate1 = T(0.1), args.beta2 = T(0.999), args.rate2 = T(0.001), args.eps = T(1e-15);
    args.inverse_root = T(1.5);
    args.step_means = T(0.01), args.step_log_scales = T(0.02), args.step_quats_wxyz = T(0.03);
    args.step_opacity_logits = T(0.04), args.step_sh_constant = T(0.05), args.step_sh = T(0.06);
    args.viewmat = view.data(), args.intrinsics = intrinsics.data(), args.radii = radii.data();
    args.v_means2d = v_means2d.data(), args.v_depths = v_depths.data(), args.v_conics = v_conics.data();
    args.log_scale_floors = floors.data();
    args.v_opacities = v_opacities.data(), args.v_normals = v_normals.data(), args.v_colors = v_colors.data();
    args.means = parameter[0].data(), args.first_means = first[0].data(),
    args.second_means = second[0].data();
    args.log_scales = parameter[1].data(), args.first_log_scales = first[1].data();
    args.second_log_scales = second[1].data();
    args.quats_wxyz = parameter[2].data(), args.first_quats_wxyz = first[2].data();
    args.second_quats_wxyz = second[2].data();
    args.opacity_logits = parameter[3].data(), args.first_opacity_logits = first[3].data();
    args.second_opacity_logits = second[3].data();
    args.sh = parameter[4].data(), args.first_sh = first[4].data(), args.second_sh = second[4].data();
    library.call("update_splats", args);
    const char* names[5] = {"means", "log_scales", "quats_wxyz", "opacity_logits", "sh"};
    for (int k = 0; k < 5; ++k) {
        report.add(std::string("update_splats:") + names[k], parameter[k]);
        report.add(std::string("update_splats:first_") + names[k], first[k]);
        report.add(std::string("update_splats:second_") + names[k], second[k]);
    }
}

template <class T>
void run_relocate(Library& library, Report& report) {
    Random random(8);
    const auto opacities = random.array<T>(COUNT, 0, 1), scales = random.array<T>(3 * COUNT, 0.01, 1);
    std::vector<int32_t> counts(COUNT);
    for (int32_t& copies : counts) copies = int32_t(random.next(1, 60));
    std::vector<T> new_opacities(COUNT), new_scales(3 * COUNT);
    library.call("relocate", splat::RelocateArgs<T>{COUNT, opacities.data(), scales.data(), counts.data(),
                                                    new_opacities.data(), new_scales.data()});
    report.add("relocate:new_opacities", new_opacities);
    report.add("relocate:new_scales", new_scales);
}

template <class T>
void run_peak_fma(Library& library, Report& report) {
    int64_t operations = 0;
    T sum = 0;
    library.call("peak_fma", splat::PeakFmaArgs<T>{7, T(0.5), T(0.7), &operations, &sum});
    // of one number of one thread: what all instruction sets agree on
    const int threads = library.symbol<int32_t()>("splat_get_num_threads")();
    report.add("peak_fma:sum_an_operation", std::vector<T>{T(double(sum) * threads / double(operations))});
}

template <class T>
void run_all(Library& library, Report& report) {
    run_rasterize<T>(library, report);
    run_project<T>(library, report);
    run_sh_colors<T>(library, report);
    run_ssim<T>(library, report);
    run_adam<T>(library, report);
    run_photometric_loss<T>(library, report);
    run_update_splats<T>(library, report);
    run_relocate<T>(library, report);
    run_peak_fma<T>(library, report);
}

std::vector<Line> run_caller(Library& library, int threads) {
    Report report(threads);
    run_all<float>(library, report);
    run_all<double>(library, report);
    return report.lines;
}

// Two threads of a program use the library at the same time: neither may notice.
void check_two_callers(Library& library, int threads, const std::vector<Line>& alone) {
    std::vector<Line> found[2];
    std::thread other([&] { found[1] = run_caller(library, threads); });
    found[0] = run_caller(library, threads);
    other.join();
    for (const auto& lines : found)
        for (size_t i = 0; i < alone.size(); ++i)
            if (!(lines[i] == alone[i])) stop(alone[i].name + " differs when two callers are at work");
}

void check_all_called(const Library& library) {
#define X(op, Args)                                                \
    for (const char* type : {"_f32", "_f64"})                      \
        if (!library.was_called("splat_" #op + std::string(type))) \
            stop(#op " was not called: add it to run_all");
    SPLAT_KERNELS(X)
#undef X
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) stop("expected one argument, the library");
    Library library(arguments[1]);
    if (library.symbol<int32_t()>("splat_abi_version")() != splat::ABI_VERSION)
        stop("the library has another ABI version");
    std::printf("isa %s\n", library.symbol<const char*()>("splat_isa")());
    for (int threads : {1, 3}) {
        if (library.symbol<int(int32_t)>("splat_set_num_threads")(threads) != splat::STATUS_OK)
            stop("splat_set_num_threads failed");
        const std::vector<Line> lines = run_caller(library, threads);
        for (const Line& line : lines)
            std::printf("%s %.17g %.17g %zu\n", line.name.c_str(), line.weighted, line.magnitude, line.count);
        if (threads > 1) check_two_callers(library, threads, lines);
    }
    check_all_called(library);
    return 0;
}
