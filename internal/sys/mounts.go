package sys

import "strings"

// Mount is the source of a mounted file system, from a line of /proc/PID/mountinfo.
type Mount struct {
	Kind   string // "ext4", "overlay", "nfs4"
	Source string // "/dev/sda1", "server:/export"
	Upper  string // of an overlay: the directory that receives the writes; else ""
}

// MountOf finds the mount of a device number in /proc/PID/mountinfo (proc(5)), the only place that
// names the source of file systems whose numbers are no block device's (btrfs, overlay, network
// file systems).
func MountOf(text []byte, major, minor uint32) (Mount, bool) {
	c := Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			return Mount{}, false
		}
		l := Cursor{Text: line}
		l.Skip(2)
		number := Cursor{Text: l.Word()}
		if v, n := LeadingDecimal(number.Text); n == 0 || v != uint64(major) || n >= len(number.Text) || number.Text[n] != ':' {
			continue
		} else if v, m := LeadingDecimal(number.Text[n+1:]); m == 0 || v != uint64(minor) || n+1+m != len(number.Text) {
			continue
		}
		_, after, ok := strings.Cut(string(line), " - ")
		kind := strings.Fields(after)
		if !ok || len(kind) < 2 {
			continue
		}
		m := Mount{Kind: kind[0], Source: unescapeMount(kind[1])}
		if m.Kind == "overlay" && len(kind) > 2 {
			for option := range strings.SplitSeq(kind[2], ",") {
				if dir, is := strings.CutPrefix(option, "upperdir="); is {
					m.Upper = unescapeMount(dir)
				}
			}
		}
		return m, true
	}
}
