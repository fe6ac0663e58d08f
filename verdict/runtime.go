package verdict

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/record"
)

// What to do about a server depends on its runtime: pprof cannot profile Python. The stacks name
// the runtime; without them, the executable does.

// runtimeNative is a program without an interpreter or virtual machine.
const runtimeNative = "native"

// runtimePrefixes maps program names to runtimes.
func runtimePrefixes() []struct{ prefix, runtime string } {
	return []struct{ prefix, runtime string }{
		{"python", "python"}, {"pypy", "python"}, {"nodejs", "node"}, {"node", "node"}, {"java", "java"}, {"php", "php"}, {"ruby", "ruby"},
		{"beam", "erlang"}, {"dotnet", "dotnet"}, {"perl", "perl"},
	}
}

// runtimeOf returns a process's runtime, judged by its executable; "" if unknown.
func runtimeOf(p *record.SubjectProcess) string {
	if strings.HasPrefix(p.BinaryID, "go:") {
		return "go"
	}
	for _, r := range runtimePrefixes() {
		if strings.HasPrefix(path.Base(p.Exe), r.prefix) {
			return r.runtime
		}
	}
	if p.BinaryID != "" && p.Exe != "" {
		return runtimeNative // or it embeds an interpreter, which its own profiler would show
	}
	return ""
}

// serverRuntime returns the runtime of most of the server's processes; "" if unknown.
func (f *serverSide) serverRuntime() (name string, pid int) {
	var list []record.StackProcess
	if len(f.base.run.Profiles) > 0 {
		return "go", 0 // only Go servers have these profiles
	}
	if f.base.run.Stacks != nil {
		list = f.base.run.Stacks.Processes
	}
	if !slices.ContainsFunc(list, func(p record.StackProcess) bool { return p.Runtime != "" }) && f.base.run.Subject != nil {
		list = nil
		for i := range f.base.run.Subject.Processes {
			p := &f.base.run.Subject.Processes[i]
			list = append(list, record.StackProcess{PID: p.PID, Comm: p.Comm, Runtime: runtimeOf(p)})
		}
	}
	n := map[string]int{}
	for _, p := range list {
		if p.Runtime == "" {
			continue
		}
		n[p.Runtime]++
		if name == "" || n[p.Runtime] > n[name] || name == runtimeNative {
			name, pid = p.Runtime, p.PID
		}
	}
	return name, pid
}

// cpuTool is ceiling profile, where it has the server's own functions and has not profiled it yet, else
// names the CPU profiler for the server's runtime.
func (f *serverSide) cpuTool() record.Statement {
	runtime, pid := f.serverRuntime()
	if slices.Contains([]string{"go", runtimeNative, ""}, runtime) && f.base.run.Profiling == nil && len(f.base.run.Profiles) == 0 {
		return say("stack-tool.profile", with{"command": f.base.again("profile"), "pprof": false})
	}
	return profilerOf(runtime, pid)
}

// profilerOf names the CPU profiler for a process of that runtime.
func profilerOf(runtime string, pid int) record.Statement {
	return say("profiler", with{"runtime": runtime, "pid": pid})
}

// waitTool says where the server's threads wait, or how to see it: ceiling profile, which needs
// nothing of the server; after it the function that it found, or the runtime's own tool where it
// named none.
func (f *serverSide) waitTool() record.Statement {
	runtime, pid := f.serverRuntime()
	g := f.base.run.Profiling
	switch {
	case runtime == "node": // its threads wait for events and for work
		return say("stack-tool.async", nil)
	case g == nil:
		return say("stack-tool.profile", with{"command": f.base.again("profile"),
			"pprof": f.base.run.Spec.Pprof != "" && f.base.run.Spec.Pprof != "off" && len(f.base.run.Profiles) == 0})
	case g != nil:
		i := slices.IndexFunc(g.Profiles, func(p record.ProfileOf) bool { return p.Kind == record.ProfileOffCPU })
		if i < 0 || g.Profiles[i].Total <= 0 || len(g.Profiles[i].Functions) == 0 {
			break
		}
		if seen := g.Profiles[i].SeenNs; seen > 0 && float64(g.Profiles[i].Total) < waitStep*float64(seen) {
			return say("stack-tool.async", nil) // of its threads hardly one waits, except for events
		}
		top := &g.Profiles[i].Functions[0]
		if share := float64(top.Self) / float64(g.Profiles[i].Total); top.File != "" && share >= mostOf {
			return say("stack-tool.found", with{"function": top.Name, "file": path.Base(top.File), "line": top.Line, "share": share})
		}
	}
	return say("stack-tool", with{"runtime": runtime, "pid": pid})
}

// ownLimit names the setting that bounds the cores the server's runtime uses.
func (f *serverSide) ownLimit() record.Statement {
	runtime, _ := f.serverRuntime()
	return say("own-limit", with{"runtime": runtime})
}

// namelessMatters is the share of the server's CPU in code without symbols from which restarting
// the server with symbols pays off.
const namelessMatters = 0.2

// namesHint says how to start the server so that its own functions have symbols; empty if most of
// its CPU already is in named code.
func (f *serverSide) namesHint() (hint []record.Statement) {
	s := f.base.run.Stacks
	if s == nil || s.CPU == nil || s.CPU.Samples < stacksFewest {
		return nil
	}
	name, pid := f.serverRuntime()
	share := 0.0
	for i := range s.CPU.Packages {
		if p := &s.CPU.Packages[i]; nameless(name, p) {
			share += p.Share
		}
	}
	// These can export symbols for generated code.
	exporters := []string{"node", "java", "python", "dotnet", runtimeNative, "ruby", "php", "perl"}
	if share < namelessMatters || !slices.Contains(exporters, name) {
		return nil
	}
	minor, _ := f.pythonMinor(pid)
	return just("names", with{"share": share, "runtime": name, "pid": pid, "python_minor": minor, "profiler": profilerOf(name, pid)})
}

// nameless reports whether a package stands for functions without symbols: JIT code, an
// interpreter running a script, a stripped program.
func nameless(runtime string, p *record.StackPackage) bool {
	if p.Name == "code made at run time" {
		return true
	}
	switch runtime {
	case "python", "ruby", "php", "perl":
		return slices.ContainsFunc([]string{runtime, "lib" + runtime}, func(prefix string) bool { return strings.HasPrefix(p.Name, prefix) })
	case runtimeNative:
		return p.Entry == "" && p.Caller == "" && !slices.Contains([]string{"kernel", "vdso", "unknown"}, p.Name)
	}
	return false
}

// pythonMinor returns the Python 3 minor version of a process, from its program name.
func (f *serverSide) pythonMinor(pid int) (int, bool) {
	if f.base.run.Subject == nil {
		return 0, false
	}
	for i := range f.base.run.Subject.Processes {
		p := &f.base.run.Subject.Processes[i]
		if text, ok := strings.CutPrefix(path.Base(cmp.Or(p.Exe, p.Comm)), "python3."); ok && p.PID == pid {
			n, err := strconv.Atoi(text)
			return n, err == nil
		}
	}
	return 0, false
}
