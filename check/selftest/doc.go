// Package selftest holds the verdict against the truth. Each scenario plants a
// ceiling (a server of package planted, a shaped link, a starved generator),
// makes an ordinary run against it, and sets what the verdict names beside what
// was planted. The parameters come from a seed, so that no rule can be fitted to
// one value.
//
// RealScenarios plant bottlenecks in the software of others (program.go), each of
// which another client confirms (confirm.go).
//
// A scenario whose needs are missing here (root, network namespaces, a CPU
// cgroup, a second core) is reported as not run, and never as right. Whatever a
// scenario makes on the host carries this process's number in its name, is
// removed when the scenario ends, and is found and removed by the next start
// where it could not be (host.go).
package selftest
