package command

import (
	"bytes"
	"debug/elf"
	"runtime/debug"
)

// Version returns the module's version, or the commit of the build.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "build-" + buildID() // without git: two builds still differ
}

// buildID returns the end of the linker's ID of this program, which is a hash of its content.
func buildID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil {
		return "unknown"
	}
	note, err := section.Data()
	if err != nil {
		return "unknown"
	}
	id := string(bytes.TrimRight(note, "\x00"))
	return id[max(0, len(id)-12):]
}
