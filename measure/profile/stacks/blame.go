//go:build linux

package stacks

import (
	"slices"
	"strings"

	"ceiling/measure/profile/symbol"
)

// Packages of samples that belong to no application code.
const (
	collector = "garbage collector"
	compiler  = "just-in-time compiler"
	scheduler = "Go's scheduler"
)

// blame says which code a stack works for.
type blame struct {
	pkg    string
	entry  string       // outermost function of the package's contiguous frames
	caller symbol.Frame // the next of the server's own; zero value: none
}

// blameOf attributes a stack, its frames named and innermost first, of a thread in that group.
// inKernel is how many of them are the kernel's.
func blameOf(thread string, frames []symbol.Frame, inKernel int) blame {
	if who := housekeeper(thread, frames[inKernel:]); who != "" {
		return blame{pkg: who}
	}
	if inKernel > 0 {
		at, _ := firstOwn(frames[inKernel:])
		return blame{pkg: symbol.Kernel, entry: kernelEntry(frames[:inKernel]), caller: at}
	}
	for i := range frames {
		if plumbing(&frames[i]) {
			continue
		}
		b := blame{pkg: frames[i].Package, entry: frames[i].Name}
		rest := frames[i:]
		for len(rest) > 0 && rest[0].Package == b.pkg {
			b.entry = rest[0].Name
			rest = rest[1:]
		}
		b.caller, _ = firstOwn(rest)
		return b
	}
	if schedules(frames) {
		return blame{pkg: scheduler}
	}
	for i := range frames { // only plumbing: the innermost named frame
		if frames[i].Name != "" {
			return blame{pkg: frames[i].Package, entry: frames[i].Name}
		}
	}
	for i := range frames {
		if frames[i].Mapped {
			return blame{pkg: frames[i].Package}
		}
	}
	return blame{pkg: "unknown"}
}

// firstOwn returns the innermost frame of code that is neither plumbing nor Go's standard library.
func firstOwn(frames []symbol.Frame) (symbol.Frame, bool) {
	for _, f := range frames {
		if !plumbing(&f) && !standard(&f) {
			return f, true
		}
	}
	return symbol.Frame{}, false
}

// housekeeper names the garbage collector or compiler at work, by the thread's name or by a
// function that only it calls; "" if it is neither.
func housekeeper(thread string, frames []symbol.Frame) string {
	for _, t := range [...]struct{ prefix, who string }{
		{"GC Thread", collector}, {"G# ", collector}, {"ZWorker", collector}, {"ZDriver", collector}, {"ZDirector", collector},
		{"ZGC", collector}, {"XWorker", collector}, {"Shenandoah", collector}, {"VM Periodic", collector},
		{"C# CompilerThre", compiler}, {".NET Server GC", collector}, {".NET BGC", collector},
	} {
		if strings.HasPrefix(thread, t.prefix) {
			return t.who
		}
	}
	for i := range frames {
		switch name := frames[i].Name; {
		case slices.Contains([]string{
			"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcAssistAlloc", "runtime.gcStart",
			"runtime.gcMarkTermination",
			"gc_collect_main", "gc_collect_region", "zend_gc_collect_cycles", "gc_marks", "gc_sweep_step",
		}, name):
			return collector
		case strings.HasPrefix(name, "v8::internal::Heap::CollectGarbage"), strings.HasPrefix(name, "v8::internal::ScavengerCollector::"),
			strings.HasPrefix(name, "v8::internal::MarkCompactCollector::"), strings.HasPrefix(name, "v8::internal::ConcurrentMarking::"),
			strings.HasPrefix(name, "v8::internal::Sweeper::"):
			return collector
		case strings.HasPrefix(name, "v8::internal::OptimizingCompileDispatcher"), strings.HasPrefix(name, "v8::internal::compiler::"),
			strings.HasPrefix(name, "v8::internal::baseline::"), strings.HasPrefix(name, "v8::internal::maglev::"):
			return compiler
		}
	}
	return ""
}

// schedules reports whether Go's scheduler is looking for work.
func schedules(frames []symbol.Frame) bool {
	return slices.ContainsFunc(frames, func(f symbol.Frame) bool {
		return slices.Contains([]string{"runtime.schedule", "runtime.findRunnable", "runtime.mcall", "runtime.park_m", "runtime.mstart",
			"runtime.sysmon"}, f.Name)
	})
}

// plumbing reports whether a frame is code that all work passes through: runtimes and their
// libraries for memory, locks and text, and what has no name.
func plumbing(f *symbol.Frame) bool {
	if f.Name == "" || !f.Mapped || f.Package == symbol.Kernel || f.Package == "vdso" || f.Package == "v8" {
		return true
	}
	for _, prefix := range [...]string{
		"libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "libgcc_s", "libm.so", "libjemalloc", "libtcmalloc", "libmimalloc",
		"python", "libpython", "libjvm.so", "libnode.so", "php", "libphp", "ruby", "libruby", "beam", "libcoreclr", "libclrjit",
	} {
		if strings.HasPrefix(f.Package, prefix) && f.File == "" {
			return true
		}
	}
	switch f.Package {
	case "node", "nodejs", "perl":
		return f.File == ""
	case "code made at run time":
		return !strings.Contains(f.Name, ".") // Interpreter, StubRoutines, I2C/C2I adapters
	}
	return f.File != "" && strings.HasSuffix(f.File, ".go") && goPlumbing(f.Package)
}

// goPlumbing does the same for Go packages.
func goPlumbing(pkg string) bool {
	root, _, _ := strings.Cut(pkg, "/")
	return slices.Contains([]string{
		"runtime", "sync", "internal", "syscall", "reflect", "strconv", "unicode", "bytes", "strings", "slices", "maps", "sort", "bufio", "io",
		"errors", "unsafe", "time", "context", "math", "cmp", "iter", "weak", "unique", "vendor",
	}, root)
}

// standard reports whether a function is in Go's standard library, by the first element of its
// import path: no module may have such a name.
func standard(f *symbol.Frame) bool {
	if !strings.HasSuffix(f.File, ".go") && !strings.HasSuffix(f.File, ".s") {
		return false
	}
	root, _, _ := strings.Cut(f.Package, "/")
	return goPlumbing(f.Package) || slices.Contains([]string{
		"archive", "compress", "container", "crypto", "database", "debug", "embed", "encoding", "expvar", "flag", "fmt", "go", "hash", "html",
		"image", "index", "log", "mime", "net", "os", "path", "plugin", "regexp", "structs", "testing", "text",
	}, root)
}

// kernelEntry names the kernel's entry point, from its frames, innermost first.
func kernelEntry(frames []symbol.Frame) string {
	for _, f := range slices.Backward(frames) {
		for _, prefix := range [...]string{"__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__do_sys_", "__se_sys_", "ksys_", "__sys_"} {
			if name, ok := strings.CutPrefix(f.Name, prefix); ok {
				return name
			}
		}
		switch {
		case strings.Contains(f.Name, "page_fault"):
			return "page fault"
		case strings.HasPrefix(f.Name, "asm_sysvec_"), strings.HasPrefix(f.Name, "sysvec_"), strings.HasPrefix(f.Name, "asm_common_interrupt"),
			f.Name == "el0_interrupt", f.Name == "el1_interrupt":
			return "interrupt"
		}
	}
	return ""
}
