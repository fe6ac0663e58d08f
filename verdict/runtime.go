package verdict

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/record"
)

// What to do about a server depends on what runs it: nobody profiles Python with
// pprof. The stacks say what does; without them its executable.

// runtimeNative is a program that nothing interprets.
const runtimeNative = "native"

// runtimePrefixes tell a runtime by the name of the program.
func runtimePrefixes() []struct{ prefix, runtime string } {
	return []struct{ prefix, runtime string }{
		{"python", "python"}, {"pypy", "python"}, {"nodejs", "node"}, {"node", "node"}, {"java", "java"}, {"php", "php"}, {"ruby", "ruby"},
		{"beam", "erlang"}, {"dotnet", "dotnet"}, {"perl", "perl"},
	}
}

// runtimeOf is what runs a process by its executable; "" is not known.
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
		return runtimeNative // or a program that embeds one, which its profiler tells
	}
	return ""
}

// serverRuntime is what runs most of the server's processes; "" is not known.
func (f *serverSide) serverRuntime() (name string, pid int) {
	var list []record.StackProcess
	if len(f.run.Profiles) > 0 {
		return "go", 0 // nobody else has them
	}
	if f.run.Stacks != nil {
		list = f.run.Stacks.Processes
	}
	if !slices.ContainsFunc(list, func(p record.StackProcess) bool { return p.Runtime != "" }) && f.run.Subject != nil {
		list = nil
		for i := range f.run.Subject.Processes {
			p := &f.run.Subject.Processes[i]
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

// cpuTool is what profiles the CPU of the server's runtime.
func (f *serverSide) cpuTool() record.Statement { return profilerOf(f.serverRuntime()) }

// profilerOf is what profiles the CPU of a process in that runtime.
func profilerOf(runtime string, pid int) record.Statement {
	return say("profiler", with{"runtime": runtime, "pid": pid})
}

// waitTool is what shows where the server's threads wait, in its runtime.
func (f *serverSide) waitTool() record.Statement {
	runtime, pid := f.serverRuntime()
	return say("stack-tool", with{"runtime": runtime, "pid": pid})
}

// ownLimit is what bounds the cores that the server's runtime uses.
func (f *serverSide) ownLimit() record.Statement {
	runtime, _ := f.serverRuntime()
	return say("own-limit", with{"runtime": runtime})
}

// namelessMatters is the share of the server's CPU in code without names from which
// it is worth a start of the server.
const namelessMatters = 0.2

// namesHint says how the server is started so that its own functions have names; none
// where most of its CPU is in code that has some.
func (f *serverSide) namesHint() (hint []record.Statement) {
	s := f.run.Stacks
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
	if share < namelessMatters || !slices.Contains(runtimesWithNames(), name) {
		return nil
	}
	minor, _ := f.pythonMinor(pid)
	return just("names", with{"share": share, "runtime": name, "pid": pid, "python_minor": minor, "profiler": profilerOf(name, pid)})
}

// runtimesWithNames can be made to give the functions that they make names.
func runtimesWithNames() []string {
	return []string{"node", "java", "python", "dotnet", runtimeNative, "ruby", "php", "perl"}
}

// nameless tells a package that stands for functions without names: code made at run
// time, an interpreter on behalf of a script, a stripped program.
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

// pythonMinor is which Python 3 a process is, by the name of its program.
func (f *serverSide) pythonMinor(pid int) (int, bool) {
	if f.run.Subject == nil {
		return 0, false
	}
	for i := range f.run.Subject.Processes {
		p := &f.run.Subject.Processes[i]
		if text, ok := strings.CutPrefix(path.Base(cmp.Or(p.Exe, p.Comm)), "python3."); ok && p.PID == pid {
			n, err := strconv.Atoi(text)
			return n, err == nil
		}
	}
	return 0, false
}
