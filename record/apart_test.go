package record

import "testing"

func TestApart(t *testing.T) {
	for _, c := range [][4]string{
		{"ceiling serve fasthttp --addr {addr}", "ceiling serve nethttp --addr {addr}", "fasthttp", "nethttp"},
		{"http://a:1/", "http://a:2/", "http://a:1/", "http://a:2/"},
		{"serve", "serve --slow", "", "--slow"},
		{"", "", "", ""},
	} {
		if a, b := Apart(c[0], c[1]); a != c[2] || b != c[3] {
			t.Errorf("%q, %q: %q, %q", c[0], c[1], a, b)
		}
	}
}
