package selftest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ceiling/internal/sys"
	"ceiling/measure/netns"
)

// hierarchy is the cgroup file system that has the CPU controller.
type hierarchy struct {
	root    string
	version int
}

// quotaPeriod of the groups created here is the kernel's default.
const quotaPeriod = 100 * time.Millisecond

// cpuHierarchy finds it among the mounts; the error says why none is usable.
func cpuHierarchy() (hierarchy, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchy{}, err
	}
	mount, err := sys.ParseCgroupMount(b)
	if err != nil {
		return hierarchy{}, err
	}
	h := hierarchy{mount.Point, mount.Version}
	if h.version == 1 {
		return h, nil
	}
	children, err := os.ReadFile(filepath.Join(h.root, "cgroup.subtree_control"))
	if err != nil {
		return h, err
	}
	if !strings.Contains(string(children), "cpu") {
		return h, errors.New("the CPU controller is not given to groups below " + h.root)
	}
	return h, nil
}

// cgroup is a group with a CPU quota.
type cgroup struct{ dir string }

// newCgroup creates a group that may use that many cores.
func (h hierarchy) newCgroup(number int, cores float64) (*cgroup, error) {
	c := &cgroup{filepath.Join(h.root, netns.Name(number))}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, err
	}
	quota, period := strconv.Itoa(int(cores*float64(quotaPeriod.Microseconds()))), strconv.Itoa(int(quotaPeriod.Microseconds()))
	var err error
	if h.version == 1 {
		err = errors.Join(c.write("cpu.cfs_period_us", period), c.write("cpu.cfs_quota_us", quota))
	} else {
		err = c.write("cpu.max", quota+" "+period)
	}
	if err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// write writes a value to one of its files, which the kernel has made.
func (c *cgroup) write(name, value string) error {
	return os.WriteFile(filepath.Join(c.dir, name), []byte(value), 0)
}

// move moves a whole process into the group.
func (c *cgroup) move(pid int) error {
	return c.write("cgroup.procs", strconv.Itoa(pid))
}

// moveGroup moves every process of a process group into the group, because workers may have been
// forked already.
func (c *cgroup) moveGroup(group int) error {
	all, err := sys.Processes()
	if err != nil {
		return err
	}
	for pid, p := range all {
		if p.Group == group {
			err = errors.Join(err, c.move(pid))
		}
	}
	return err
}

// remove deletes the group. A process that has just exited may hold it for a moment.
func (c *cgroup) remove() error {
	var err error
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = os.Remove(c.dir); !errors.Is(err, syscall.EBUSY) {
			break
		}
	}
	return err
}

// ownGroup returns this process's current group, to return to.
func (h hierarchy) ownGroup() (*cgroup, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	group, found := sys.ParseCgroupPath(b, h.version)
	if !found {
		return nil, errors.New("/proc/self/cgroup names no group of the CPU controller")
	}
	return &cgroup{filepath.Join(h.root, group)}, nil
}
