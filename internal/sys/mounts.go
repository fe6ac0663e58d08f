package sys

import "strings"

// Mount is what a file system is mounted from, by a line of /proc/PID/mountinfo.
type Mount struct {
	Kind   string // "ext4", "overlay", "nfs4"
	Source string // "/dev/sda1", "server:/export"
	Upper  string // of an overlay: the directory that takes what is written; "" of others
}

// MountOf finds the mount of a device number in the text of /proc/PID/mountinfo
// (proc(5)): the file systems whose numbers name no block device (btrfs, overlay, those
// of a network) have them there only.
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
