package sys

import (
	"bytes"
	"fmt"
	"io/fs"
	"iter"
	"strings"
)

// Fields iterates over the names and values of a kernel file with one per line: the name ends at
// the colon ("VmHWM:  5120 kB", "model name : x"), or at the first blank if there is none ("pswpin
// 17"). Both point into the text, without surrounding blanks.
func Fields(text []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		for c := (Cursor{Text: text}); ; {
			line, ok := c.Line()
			if !ok {
				return
			}
			at := bytes.IndexByte(line, ':')
			if at < 0 {
				at = bytes.IndexByte(line, ' ')
			}
			if at >= 0 && !yield(trim(line[:at]), trim(line[at+1:])) {
				return
			}
		}
	}
}

// trim is bytes.TrimSpace for blanks, in a third of its time.
func trim(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\t') {
		p = p[1:]
	}
	for len(p) > 0 && (p[len(p)-1] == ' ' || p[len(p)-1] == '\t') {
		p = p[:len(p)-1]
	}
	return p
}

// Field returns the value of the first line with a name; "" if there is none.
func Field(text []byte, name string) string {
	for n, value := range Fields(text) {
		if string(n) == name {
			return string(value)
		}
	}
	return ""
}

// FieldCount returns the number at the start of a name's value, in the file's own unit.
func FieldCount(text []byte, name string) (uint64, error) {
	value := Cursor{Text: []byte(Field(text, name))}
	n, ok := value.Uint()
	if !ok {
		return 0, fmt.Errorf("no %s in it", name)
	}
	return n, nil
}

// counter parses a number into v and returns 1, or 0 if the value is not a number.
func counter(value []byte, v *uint64) int {
	c := Cursor{Text: value}
	n, ok := c.Uint()
	if !ok {
		return 0
	}
	*v = n
	return 1
}

// FileText returns what is in a file of /proc or /sys without the space around it; "" if it cannot
// be read, which is what it says on a machine that lacks what it is about.
func FileText(root fs.FS, name string) string {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
