//go:build linux

package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/sys"
	"ceiling/record"
)

// Which block devices hold the open files of the server, and of the servers that it queries. A file
// has the number of its file system, usually that of the device below it. Other file systems
// (btrfs, overlay) name theirs in the list of mounts; network and FUSE ones have none on this host.

const (
	// diskFilesMost is how many open files one look stats, some µs each.
	diskFilesMost = 1024
	// disksBelow bounds the devices that a volume or array is resolved to.
	disksBelow = 16
)

// diskFiles finds them. Files come and go, so a device once seen stays.
type diskFiles struct {
	t       *tools
	subject *subject
	from    int // process that the next look begins with
	fds     []int
	devices map[sys.FileDevice][]string // by number: names, the device's first
	users   map[string][]int            // PIDs by device
	missing func(what, why string)
	said    map[string]bool
}

func newDiskFiles(t *tools, s *subject, missing func(what, why string)) *diskFiles {
	return &diskFiles{
		t: t, subject: s, missing: missing,
		devices: make(map[sys.FileDevice][]string), users: make(map[string][]int), said: make(map[string]bool),
	}
}

// usedBy returns the processes that have files open on a device; the list only grows behind its end.
func (d *diskFiles) usedBy(device string) []int { return d.users[device] }

func (d *diskFiles) sample(tick, Emit) error {
	left := diskFilesMost
	all := d.subject.processes
	for i := range all {
		p := all[(d.from+i)%len(all)]
		if p.gone || p.identity.role == record.RoleGenerator {
			continue
		}
		if left <= 0 {
			d.from = (d.from + i) % len(all)
			return nil
		}
		left -= d.look(p, left)
	}
	return nil
}

// look stats the open files of a process, the lowest numbers first, and returns about how many.
func (d *diskFiles) look(p *process, most int) int {
	dir, err := sys.OpenBelow(p.dir, d.t.path.of("fd").end())
	if err != nil {
		return 1 // gone, or another user's: reported as not readable elsewhere
	}
	defer closeFile(&dir)
	if d.fds, err = d.t.list.numbers(dir, d.fds); err != nil {
		return 1
	}
	fds := d.fds[:min(len(d.fds), most)]
	for _, fd := range fds {
		at, err := sys.DeviceBelow(dir, d.t.path.of("").number(fd).end())
		if err != nil || !at.Holds {
			continue
		}
		names, known := d.devices[at]
		if !known {
			names = d.find(p, at)
			d.devices[at] = names
		}
		for _, name := range names {
			if !slices.Contains(d.users[name], p.identity.pid) {
				d.users[name] = append(d.users[name], p.identity.pid)
			}
		}
	}
	return len(fds)
}

// find returns the devices that hold the files of a file system.
func (d *diskFiles) find(p *process, at sys.FileDevice) []string {
	if at.Major != 0 {
		return d.below(d.named(at), nil)
	}
	text, err := d.t.r.below(p.dir, d.t.path.of("mountinfo").end())
	if err != nil {
		return nil
	}
	m, ok := sys.MountOf(text, at.Major, at.Minor)
	if !ok {
		return nil // memory, or a mount of another namespace
	}
	on := m.Source
	if m.Upper != "" {
		on = m.Upper
	}
	if strings.HasPrefix(on, "/") {
		// In the observer's own mount namespace, which may not be the process's.
		if its, err := sys.DeviceBelow(atCWD, append([]byte(on), 0)); err == nil && its.Major != 0 {
			return d.below(d.named(its), nil)
		}
	}
	d.elsewhere(p, m)
	return nil
}

// elsewhere notes once that files are on no visible device. In-memory file systems have none.
func (d *diskFiles) elsewhere(p *process, m sys.Mount) {
	remote := m.Kind == "overlay" || strings.HasPrefix(m.Kind, "fuse") ||
		slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "lustre", "glusterfs", "btrfs", "zfs"}, m.Kind)
	if what := m.Kind + " " + m.Source; remote && !d.said[what] {
		d.said[what] = true
		d.missing("disk of process "+strconv.Itoa(p.identity.pid)+" ("+p.identity.comm+")",
			fmt.Sprintf("it has files open on %s (%s), which is on no block device that can be seen here", m.Source, m.Kind))
	}
}

// named returns the name of a device, for a partition that of the whole disk; "" if /sys has none.
func (d *diskFiles) named(at sys.FileDevice) string {
	link := fmt.Sprintf("%s/dev/block/%d:%d", d.t.sysfs, at.Major, at.Minor)
	to, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(link + "/partition"); err == nil {
		to = filepath.Dir(to)
	}
	return strings.ReplaceAll(filepath.Base(to), "!", "/")
}

// below adds a device, and those that it consists of, to a list.
func (d *diskFiles) below(name string, list []string) []string {
	if name == "" || slices.Contains(list, name) || len(list) == disksBelow {
		return list
	}
	list = append(list, name)
	entries, err := os.ReadDir(d.t.sysfs + "/block/" + strings.ReplaceAll(name, "/", "!") + "/slaves")
	if err != nil {
		return list // it consists of none
	}
	for _, e := range entries {
		of := e.Name()
		if to, err := filepath.EvalSymlinks(d.t.sysfs + "/class/block/" + of); err == nil {
			if _, err := os.Stat(to + "/partition"); err == nil {
				of = filepath.Base(filepath.Dir(to))
			}
		}
		list = d.below(of, list)
	}
	return list
}

func (d *diskFiles) close() {}
