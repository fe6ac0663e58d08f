package verdict

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/unit"
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
func (f *facts) serverRuntime() (name string, pid int) {
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
func (f *facts) cpuTool() string {
	return profilerOf(f.serverRuntime())
}

// profilerOf is what profiles the CPU of a process in that runtime.
func profilerOf(name string, pid int) string {
	switch name {
	case "":
		return "perf record -g"
	case "go":
		return "--pprof"
	case "java":
		return fmt.Sprintf("jcmd %d JFR.start duration=30s filename=cpu.jfr, or async-profiler", pid)
	case "python":
		return fmt.Sprintf("py-spy top --pid %d", pid)
	case "node":
		return "node --cpu-prof"
	case "php":
		return fmt.Sprintf("phpspy -p %d", pid)
	case "ruby":
		return fmt.Sprintf("rbspy record --pid %d", pid)
	case "dotnet":
		return fmt.Sprintf("dotnet-trace collect -p %d", pid)
	case "erlang":
		return "recon, eprof"
	}
	return fmt.Sprintf("perf record -g -p %d", pid)
}

// waitTool is what shows where the server's threads wait, in its runtime.
func (f *facts) waitTool() string {
	name, pid := f.serverRuntime()
	switch name {
	case "go":
		return "its block and mutex profiles (--pprof)"
	case "java":
		return fmt.Sprintf("jstack %d", pid)
	case "python":
		return fmt.Sprintf("py-spy dump --pid %d", pid)
	case "node":
		return fmt.Sprintf("what its event loop awaits (node --inspect, kill -USR1 %d)", pid)
	case "php":
		return "request_slowlog_timeout of php-fpm"
	case "ruby":
		return fmt.Sprintf("rbspy dump --pid %d", pid)
	case "dotnet":
		return fmt.Sprintf("dotnet-stack report -p %d", pid)
	case runtimeNative:
		return fmt.Sprintf("the stacks of its threads (gdb -p %d -batch -ex 'thread apply all bt')", pid)
	}
	return "the stacks of its threads"
}

// ownLimit is what bounds the cores that the server's runtime uses.
func (f *facts) ownLimit() string {
	switch name, _ := f.serverRuntime(); name {
	case "go":
		return "GOMAXPROCS"
	case "java":
		return "its pool of threads, -XX:ActiveProcessorCount"
	case "python", "node", "php", "ruby", "perl":
		return "workers, processes"
	case "":
		return "workers, threads, processes"
	}
	return "workers, threads, processes"
}

// namelessMatters is the share of the server's CPU in code without names from which
// it is worth a start of the server.
const namelessMatters = 0.2

// namesHint says how the server is started so that its own functions have names; ""
// where most of its CPU is in code that has some.
func (f *facts) namesHint() string {
	s := f.run.Stacks
	if s == nil || s.CPU == nil || s.CPU.Samples < stacksFewest {
		return ""
	}
	name, pid := f.serverRuntime()
	share := 0.0
	for i := range s.CPU.Packages {
		if p := &s.CPU.Packages[i]; nameless(name, p) {
			share += p.Share
		}
	}
	if share < namelessMatters {
		return ""
	}
	how := ""
	switch name {
	case "node":
		how = "start it with node --perf-basic-prof"
	case "java":
		how = fmt.Sprintf("run jcmd %d Compiler.perfmap before the next run (JDK 17 and later), with -XX:+PreserveFramePointer", pid)
	case "python":
		how = "start it with python3 -X perf (3.12 and later)"
		if minor, ok := f.pythonMinor(pid); ok && minor < 12 {
			how = fmt.Sprintf("use py-spy record --pid %d, or start it with a Python from 3.12 on (this is 3.%d) and -X perf", pid, minor)
		}
	case "dotnet":
		how = "start it with DOTNET_PerfMapEnabled=1"
	case runtimeNative:
		how = "install its debug symbols, or build it without stripping"
	case "ruby", "php", "perl":
		how = "use " + profilerOf(name, pid) + ": its interpreter keeps the names to itself"
	default:
		return ""
	}
	return fmt.Sprintf("to see names for the %s of its CPU that has none, %s", unit.Percent(share), how)
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
func (f *facts) pythonMinor(pid int) (int, bool) {
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
