//go:build linux

package run

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
)

// TestComputeCostsMoreThanRead: /compute stands for work in the application, so the server's CPU per
// request is a multiple of that of /read, by rounds of both on CPUs apart from the generator's: above five
// on a quiet machine, while other work makes each small request dearer (4.1 at a load of 12).
func TestComputeCostsMoreThanRead(t *testing.T) {
	needs.Quiet(t)
	twoCPUs(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	c := startServer(t, "nethttp")
	var ratios []float64
	for range 5 {
		cost := func(path string) float64 {
			s := specOf(c.Addr, path)
			s.Connections, s.Apart = 64, true
			subject := do(t, s).Run.Subject
			if subject == nil || !(subject.CPUNsPerRequest > 0) {
				t.Fatalf("%s: the server's CPU was not measured", path)
			}
			return subject.CPUNsPerRequest
		}
		ratios = append(ratios, cost("/compute")/cost("/read"))
	}
	slices.Sort(ratios)
	t.Logf("/compute costs %.1f times the CPU of /read", ratios)
	if ratios[2] < 2.5 {
		t.Errorf("/compute costs %.1f times the CPU of /read", ratios)
	}
}

// A body in chunks is the same body to another's parser, without a length; also an empty one.
func TestBodiesInChunks(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "x", strings.Repeat("0123456789", 10_000)} {
		target := spec.Target{Method: "PUT", URL: "http://127.0.0.1:1/up", Body: []byte(body), Weight: 1,
			Header: []spec.Field{{Name: "transfer-encoding", Value: "Chunked"}}}
		mix, err := requests(&spec.Spec{Targets: []spec.Target{target}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(mix[0].Bytes)))
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.ReadAll(got.Body)
		if err != nil || string(read) != body || got.ContentLength != -1 {
			t.Errorf("%d bytes are read as %d, length %d, %v", len(body), len(read), got.ContentLength, err)
		}
	}
}
