package screen

import (
	"testing"
)

func TestScreen(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"lines", "a\r\nb", "a\nb"},
		{"a line again", "long\rab\x1b[K", "ab"},
		{"up and erase", "1\r\n2\r\n3\r\x1b[2A\x1b[J", ""},
		{"scrolls", "1\r\n2\r\n3\r\n4\r\n5", "1\n2\n3\n4\n5"},
		{"wraps", "abcdefghijk", "abcdefghij\nk"},
		{"columns", "abc\x1b[2Dx\x1b[5Gy\x1b[1Cz", "axc y z"},
		{"erase a part", "abcdef\x1b[3G\x1b[2Xz", "abz ef"},
		{"up to the cursor", "abcdef\x1b[3G\x1b[1K", "   def"},
		{"delete and insert", "abcdef\x1b[2G\x1b[2P\x1b[@x", "axdef"},
		{"again", "ab\x1b[3b", "abbbb"},
		{"insert a line", "1\r\n2\x1b[L", "1\n\n2"},
		{"colours and titles", "\x1b[1;31mx\x1b[m\x1b]0;title\x07y", "xy"},
		{"more than ASCII", "▁█é", "▁█é"},
	} {
		s := New(10, 4)
		for i := range len(c.in) { // byte by byte: sequences come in pieces
			if n, err := s.Write([]byte{c.in[i]}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := s.Text(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if u := s.Unknown(); len(u) > 0 {
			t.Errorf("%s: unknown %q", c.name, u)
		}
	}
	s := New(10, 4)
	s.Write([]byte("\x1b[?25l\x1b[6n\x1b[?2026$p\x1b[9z"))
	if !s.CursorHidden() || len(s.Asked()) != 2 || len(s.Unknown()) != 1 {
		t.Errorf("hidden %v, asked %q, unknown %q", s.CursorHidden(), s.Asked(), s.Unknown())
	}
}
