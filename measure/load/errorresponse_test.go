package load

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ceiling/internal/faultserver"
)

func TestFirstLine(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, strings.Repeat("not for the eye\n", 99))
	z.Close()
	long := strings.Repeat("ä", 300)
	for _, c := range []struct{ body, want string }{
		{"", ""},
		{"404 page not found\n", "404 page not found"},
		{"\r\n \r\n<h1>Not Found</h1>\r\nmore", "<h1>Not Found</h1>"},
		{"a\tb\x1b[31mred", "a b[31mred"},
		{"{\"error\":\"no such user\"}", "{\"error\":\"no such user\"}"},
		{packed.String(), ""},
		{long, long[:200]},
		{"x" + long, "x" + long[:198]},
	} {
		if got := firstLine([]byte(c.body)); got != c.want {
			t.Errorf("%q: %q, want %q", c.body, got, c.want)
		}
	}
}

// TestErrorResponses: of each unexpected status the first response is kept, with
// the line that says why, on both engines, with pipelining and chunked bodies;
// responses that were expected leave nothing.
func TestErrorResponses(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, engine string) {
		missing := faultserver.Response("404 Not Found", "", "no such path\nsecond line")
		broken := "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nit broke\n\r\n0\r\n\r\n"
		for name, c := range map[string]struct {
			script     func(int) faultserver.Script
			pipelining int
			unexpected *[1000]bool
			want       []ErrorResponse
			bad        uint64
		}{
			"fine":    {faultserver.Every(faultserver.Answer(faultserver.OK("secret"))), 1, nil, nil, 0},
			"missing": {faultserver.Every(faultserver.Answer(missing)), 1, nil, []ErrorResponse{{404, "no such path"}}, 400},
			"deep":    {faultserver.Every(faultserver.Answer(missing)), 8, nil, []ErrorResponse{{404, "no such path"}}, 400},
			"both": {faultserver.Every(faultserver.Loop(faultserver.AnswerTimes(1, missing), faultserver.AnswerTimes(1, broken))), 1, nil,
				[]ErrorResponse{{404, "no such path"}, {500, "it broke"}}, 400},
			"expected": {faultserver.Every(faultserver.Answer(missing)), 1, new([1000]bool), nil, 0},
		} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, c.script)
				cfg := config(t, s, engine, 400)
				cfg.Pipelining, cfg.Unexpected = c.pipelining, c.unexpected
				r := runs(t, cfg)
				if !reflect.DeepEqual(r.Errors, c.want) || r.Total.Bad != c.bad {
					t.Errorf("%d bad, %v; want %d, %v", r.Total.Bad, r.Errors, c.bad, c.want)
				}
			})
		}
	})
}
