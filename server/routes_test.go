//go:build linux

package server

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"ceiling/internal/needs"
)

func route(t *testing.T, path string) *Route {
	t.Helper()
	for _, r := range Routes() {
		if r.Path == path {
			return &r
		}
	}
	t.Fatalf("no route %s", path)
	return nil
}

func TestCatalogue(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Catalogue() {
		got, err := Lookup(k.Name)
		if err != nil || got != k {
			t.Errorf("Lookup(%s) = %v, %v", k.Name, got, err)
		}
		if names[k.Name] || k.About == "" {
			t.Errorf("%s: twice, or says nothing about itself", k.Name)
		}
		names[k.Name] = true
	}
	_, err := Lookup("apache")
	if err == nil {
		t.Fatal("apache was found")
	}
	for name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not list %s", err, name)
		}
	}
}

func TestRoutesDescribeThemselves(t *testing.T) {
	paths := map[string]bool{}
	for _, r := range Routes() {
		if paths[r.Path] || !strings.HasPrefix(r.Path, "/") || r.About == "" || r.ContentType == "" {
			t.Errorf("route %+v: twice, or incomplete", r.Path)
		}
		paths[r.Path] = true
	}
}

func TestChooseIsInRangeAndEven(t *testing.T) {
	for _, n := range []int{1, 2, 7, 500} {
		if first, last := choose(0, n), choose(^uint64(0), n); first != 0 || last != n-1 {
			t.Errorf("of %d, the least seed chooses %d and the largest %d", n, first, last)
		}
	}
	const n, each = productCount, 200
	draw := rand.New(rand.NewPCG(7, 7))
	var counts [n]float64
	for range n * each {
		counts[choose(draw.Uint64(), n)]++
	}
	// The sum of squared deviations over the expectation follows chi-squared with 499 degrees of freedom: mean 499,
	// standard deviation 31.6. Five of those above the mean are 657.
	chi := 0.0
	for _, c := range counts {
		chi += (c - each) * (c - each) / each
	}
	if chi > 657 {
		t.Errorf("chi-squared %.0f over %d products", chi, n)
	}
}

// The routes that choose can choose everything, and nothing else.
func TestAnswersReachThePool(t *testing.T) {
	p := mustPool(t)
	var products, packed [][]byte
	for _, x := range p.products {
		products, packed = append(products, x.json), append(packed, x.gzip)
	}
	for path, all := range map[string][][]byte{
		"/simple": {[]byte(`{"message":"hi"}`)}, "/healthz": {[]byte("ok\n")},
		"/read": products, "/read-gz": packed, "/list": p.lists,
	} {
		r := route(t, path)
		want := map[string]bool{}
		for _, b := range all {
			want[string(b)] = true
		}
		seen := map[string]bool{}
		draw := rand.New(rand.NewPCG(1, 2))
		for range 15 * len(all) {
			got := r.answer(p, draw.Uint64())
			if !want[string(got)] {
				t.Fatalf("%s: answered %.80q", path, got)
			}
			seen[string(got)] = true
		}
		if len(seen) != len(all) {
			t.Errorf("%s: %d bodies of %d were chosen", path, len(seen), len(all))
		}
	}
}

func TestAnswersArePure(t *testing.T) {
	needs.Processes(t)
	p := mustPool(t)
	other, err := newPool()
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(3, 4))
	for _, r := range Routes() {
		for range 200 {
			seed := draw.Uint64()
			if first, again := r.answer(p, seed), r.answer(other, seed); !bytes.Equal(first, again) {
				t.Fatalf("%s: seed %d gives %.80q, then %.80q", r.Path, seed, first, again)
			}
		}
	}
}

// Only /compute allocates: what the others cost is the server's.
func TestAnswersDoNotAllocate(t *testing.T) {
	p := mustPool(t)
	for _, r := range Routes() {
		n := testing.AllocsPerRun(500, func() { r.answer(p, rand.Uint64()) })
		if n != 0 && !r.computed {
			t.Errorf("%s: %v allocations", r.Path, n)
		}
	}
}

// TestFrameworksEcho: a WebSocket answers every message with itself, and ends with its server.
func TestFrameworksEcho(t *testing.T) {
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := start(t, k.Name, Config{})
			c, _, err := websocket.Dial(ctx, "ws://"+r.addr+webSocketPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 10 {
				want := strings.Repeat("é", n*100)
				if err := c.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
					t.Fatal(err)
				}
				kind, got, err := c.Read(ctx)
				if err != nil || kind != websocket.MessageText || string(got) != want {
					t.Fatalf("%d: %v %q, %v", n, kind, got, err)
				}
			}
			r.stop(t)
			if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
				t.Error("the WebSocket outlives its server")
			}
		})
	}
}
