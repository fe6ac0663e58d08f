package perturb

import (
	"slices"

	"ceiling/experiment/spec"
	"ceiling/internal/sys"
)

// AllowedTo are the CPUs that threads of some processes may use, ascending.
func AllowedTo(pids []int) ([]int, error) {
	var cpus []int
	for _, pid := range pids {
		t, err := readTask(pid)
		if err != nil {
			return nil, err
		}
		for _, some := range t.Threads {
			cpus = append(cpus, some...)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// allowedHere are the CPUs that this process may use, or those of the list.
func allowedHere(pinned string) ([]int, error) {
	if pinned != "" {
		return spec.ParseCPUList(pinned)
	}
	return sys.AllowedCPUs(0)
}
