package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseField(t *testing.T) {
	for _, c := range []struct {
		text string
		want Field
	}{
		{"Accept: text/html", Field{"Accept", "text/html"}},
		{"X-a:b:c", Field{"X-a", "b:c"}},
		{"X-Empty:", Field{"X-Empty", ""}},
		{"X: \t é \t", Field{"X", "é"}},
	} {
		if got, err := ParseField(c.text); err != nil || got != c.want {
			t.Errorf("ParseField(%q) = %+v, %v; want %+v", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"Accept", "has no colon; write 'Name: value'"},
		{": x", "has no name"},
		{"A b: x", "only letters"},
		{"A : x", "only letters"},
		{"A: x\r\nB: y", "control character (0x0d) at byte 2"},
		{"A: \x00", "control character (0x00)"},
		{"A: \xff", "not UTF-8"},
		{"A: " + strings.Repeat("x", fieldMax), "too many"},
	} {
		_, err := ParseField(c.text)
		checkError(t, c.text, err, c.want)
	}
}

func TestReadBody(t *testing.T) {
	dir := t.TempDir()
	file, big := filepath.Join(dir, "body"), filepath.Join(dir, "big")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, BodyMax+1); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{"": "", "text": "text", "@-": "typed", "@" + file: "from a file\n"} {
		got, err := ReadBody(arg, iotest.OneByteReader(strings.NewReader("typed")))
		if err != nil || string(got) != want {
			t.Errorf("ReadBody(%q) = %q, %v; want %q", arg, got, err, want)
		}
	}
	for arg, want := range map[string]string{
		"@":                            "write @file",
		"@" + filepath.Join(dir, "no"): "no such file",
		"@" + big:                      "more than 16777216 bytes",
		"@-":                           iotest.ErrTimeout.Error(),
		strings.Repeat("x", BodyMax+1): "too many",
	} {
		_, err := ReadBody(arg, iotest.ErrReader(iotest.ErrTimeout))
		checkError(t, quoteShort(arg), err, want)
	}
}
