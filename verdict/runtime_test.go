package verdict

import (
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestRuntimeByExecutable: without stacks the executable tells.
func TestRuntimeByExecutable(t *testing.T) {
	for _, c := range []struct{ exe, id, want string }{
		{"/srv/app", "go:abc", "go"}, {"/usr/bin/python3.11", "gnu:1", "python"}, {"/usr/bin/node", "gnu:1", "node"},
		{"/usr/lib/jvm/17/bin/java", "gnu:1", "java"}, {"/usr/sbin/php-fpm8.2", "gnu:1", "php"}, {"/usr/bin/ruby3.1", "", "ruby"},
		{"/usr/sbin/nginx", "gnu:1", runtimeNative}, {"", "", ""},
	} {
		if got := runtimeOf(&record.SubjectProcess{Exe: c.exe, BinaryID: c.id}); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.exe, c.id, got, c.want)
		}
	}
}

// served are facts of a server in some runtime.
func served(runtime, exe string, packages ...record.StackPackage) *facts {
	run := closedRun()
	run.Stacks = &record.Stacks{
		Processes: []record.StackProcess{{PID: 7, Comm: "server", Runtime: runtime}},
		CPU:       &record.CPUStacks{Samples: 500, Hz: 199, Packages: packages},
	}
	run.Subject = &record.Subject{Processes: []record.SubjectProcess{{PID: 7, Exe: exe, BinaryID: "gnu:1"}}}
	return newFacts(run, nil)
}

// TestAdviceFitsTheRuntime: pprof is for Go.
func TestAdviceFitsTheRuntime(t *testing.T) {
	for _, runtime := range []string{"go", "java", "python", "node", "php", "ruby", "dotnet", "erlang", "perl", runtimeNative, ""} {
		f := served(runtime, "")
		f.base.run.Subject, f.base.run.Profiling = nil, &record.Profiling{}
		for what, tool := range map[string]string{"CPU": prose.Text(f.cpu.server.cpuTool()), "waits": prose.Text(f.cpu.server.waitTool())} {
			if strings.Contains(tool, "pprof") != (runtime == "go") || tool == "" {
				t.Errorf("%s of %q: %s", what, runtime, tool)
			}
		}
		if limit := prose.Text(f.cpu.server.ownLimit()); strings.Contains(limit, "GOMAXPROCS") != (runtime == "go") {
			t.Errorf("%q limits itself by %s", runtime, limit)
		}
	}
}

// TestNamesHint: where functions have no names, how they get some.
func TestNamesHint(t *testing.T) {
	made := record.StackPackage{Name: "code made at run time", Share: 0.6}
	for _, c := range []struct {
		what string
		f    *facts
		want string // "": nothing
	}{
		{"node", served("node", "/usr/bin/node", made), "start it with node --perf-basic-prof"},
		{"java", served("java", "/usr/bin/java", made), "jcmd 7 Compiler.perfmap"},
		{"python 3.11", served("python", "/usr/bin/python3.11", record.StackPackage{Name: "python3.11", Share: 0.8}),
			"py-spy record --pid 7, or start it with a Python from 3.12 on (this is 3.11) and -X perf"},
		{"python 3.13", served("python", "/usr/bin/python3.13", record.StackPackage{Name: "libpython3.13.so.1.0", Share: 0.8}),
			"start it with python3 -X perf"},
		{"dotnet", served("dotnet", "", made), "DOTNET_PerfMapEnabled=1"},
		{"stripped", served(runtimeNative, "/srv/x", record.StackPackage{Name: "x", Share: 0.9}), "install its debug symbols"},
		{"with names", served(runtimeNative, "/srv/x", record.StackPackage{Name: "x", Share: 0.9, Entry: "parse"}), ""},
		{"in the kernel", served(runtimeNative, "/srv/x", record.StackPackage{Name: "kernel", Share: 0.9}), ""},
		{"little", served("node", "/usr/bin/node", record.StackPackage{Name: "app", Share: 0.9},
			record.StackPackage{Name: "code made at run time", Share: 0.1}), ""},
		{"go", served("go", "/srv/x", record.StackPackage{Name: "main", Share: 1}), ""},
	} {
		if got := prose.Sentence(c.f.cpu.server.namesHint()); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
