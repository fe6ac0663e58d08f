package record

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/experiment/spec"
)

// Again returns the words of a command to type once more, as verb, with a flag set (its name, and its
// value where it has one) whatever value it had. Left out is what says where to write, for that file
// exists by now, and how to print; CPUs to pin, of a command that separates them; and what the new verb
// lacks. There are none of no command.
func Again(command []string, verb string, flag ...string) []string {
	if len(command) < 2 {
		return nil
	}
	words := append([]string{filepath.Base(command[0]), verb}, flag...)
	valued, bare := []string{"--out", "-o"}, []string{"-v", "--verbose", "--json", "--live"}
	if verb != command[1] {
		valued = append(valued, "--repeats", "--pause", "--start", "--max-rate", "--precision", "--share", "--interface", "--namespace", "--blocks")
		bare = append(bare, "--quiet", "--profile", "--dry-run")
	}
	if verb == "prove" { // of closed loops, by time
		valued = append(valued, "-R", "--arrivals", "-n", "--requests")
	}
	switch {
	case slices.Equal(flag, []string{"--separate-cpus"}):
		valued, bare = append(valued, "--pin-generator", "--pin-server"), append(bare, flag[0])
	case len(flag) == 1:
		bare = append(bare, flag[0])
	case len(flag) == 2:
		valued = append(valued, flag[0])
		if flag[0] == "-d" {
			valued = append(valued, "-n", "--requests") // they end a run as well
		}
	}
	for i := 2; i < len(command); i++ {
		name, _, joined := strings.Cut(command[i], "=")
		if letter := letterOf(strings.TrimPrefix(name, "--")); letter != "" && name[0] == '-' {
			name = letter
		}
		switch {
		case slices.Contains(valued, name):
			if !joined {
				i++ // its value
			}
		case slices.Contains(bare, name):
		case len(flag) == 2 && len(flag[0]) == 2 && name[0:min(2, len(name))] == flag[0]: // -c64
		default:
			words = append(words, command[i])
		}
	}
	return words
}

// letterOf returns the letter of a flag that sets a load or its duration; "" for others.
func letterOf(name string) string {
	if name == "duration" {
		return "-d"
	}
	return spec.Dimension(name).Flag()
}

// CommandIn returns the first command to type that statements have; "" if they have none.
func CommandIn(list []Statement) string {
	for i := range list {
		if c, is := list[i].With["command"].(string); is && strings.HasSuffix(filepath.Base(strings.Split(c, " ")[0]), "ceiling") {
			return c
		}
		for _, name := range slices.Sorted(maps.Keys(list[i].With)) {
			inner, _ := list[i].With[name].([]Statement)
			if one, is := list[i].With[name].(Statement); is {
				inner = []Statement{one}
			}
			if c := CommandIn(inner); c != "" {
				return c
			}
		}
	}
	return ""
}
