// Counts the thread sanitizer's reports, for the scheduler to stop at the first: loaded into the process before the
// sanitizer's own library, whose empty function of this name it replaces.
extern "C" {

__attribute__((visibility("default"))) int emulation_reports = 0;

__attribute__((visibility("default"))) void __tsan_on_report(void*) { emulation_reports++; }
}
