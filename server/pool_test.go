//go:build linux

package server

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func mustPool(t testing.TB) *pool {
	t.Helper()
	p, err := onePool()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Results of different builds compare only if they served the same bytes. When this fails, the pool has changed: say
// so in the notes of the release, and put the new sum here.
func TestPoolIsTheSameEverywhere(t *testing.T) {
	const want = "8595f66fc014ea952cd697e76a3f37c17ac5e3d8627662001c8f4f6f644eaa63"
	p := mustPool(t)
	h := sha256.New()
	for _, x := range p.products {
		h.Write(x.json)
	}
	for _, l := range p.lists {
		h.Write(l)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("sum of the pool %s, want %s", got, want)
	}
}

func TestProducts(t *testing.T) {
	p := mustPool(t)
	ids := map[string]bool{}
	least, most, whole, packed := len(p.products[0].json), 0, 0, 0
	for i, x := range p.products {
		var d Product
		decoder := json.NewDecoder(bytes.NewReader(x.json))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&d); err != nil {
			t.Fatalf("product %d: %v", i, err)
		}
		least, most = min(least, len(x.json)), max(most, len(x.json))
		check := func(ok bool, what string) {
			t.Helper()
			if !ok {
				t.Errorf("product %d: %s: %.200s", i, what, x.json)
			}
		}
		check(len(x.json) >= 3400 && len(x.json) <= 5700, "size")
		check(!ids[d.ID] && len(d.ID) == 36, "id")
		ids[d.ID] = true
		check(d.Name != "" && d.Category != "", "name, category")
		check(d.Rating >= 1 && d.Rating <= 5, "rating")
		check(d.ReviewCount >= 0 && d.ReviewCount <= 20_000, "reviews")
		check(strings.Count(d.Description, "\n\n") == 4, "paragraphs")
		check(len(d.Tags) >= 5 && len(d.Tags) <= 15, "tags")
		check(len(d.Images) >= 3 && len(d.Images) <= 8, "images")
		var raw struct{ Attributes map[string]any }
		check(json.Unmarshal(x.json, &raw) == nil && len(raw.Attributes) == 7, "attributes")
		for name, v := range raw.Attributes {
			check(v != "", name)
		}
		var brand string
		check(json.Unmarshal(p.brands[x.brand], &brand) == nil && brand == d.Brand, "brand")
		check(d.Price > 0 && d.Price == money(d.Price), "price")
		check(bytes.Equal(unzip(t, x.gzip), x.json) && len(x.gzip) < len(x.json), "gzip")
		whole, packed = whole+len(x.json), packed+len(x.gzip)
	}
	mean, times := float64(whole)/productCount, float64(whole)/float64(packed)
	if mean < 4450 || mean > 4550 || times < 1.95 || times > 1.99 {
		t.Errorf("products of %.0f bytes on average, compressed %.3f times smaller; about 4.5 KB and 1.96 are documented", mean, times)
	}
	t.Logf("products of %d to %d bytes, %.0f on average; compressed, %.3f times smaller", least, most, mean, times)
}

func unzip(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLists(t *testing.T) {
	for _, c := range []struct{ kb, least, most int }{{0, 20, 30}, {MinListKB, 2, 2}, {48, 9, 13}, {350, 63, 93}, {MaxListKB, 266, 398}} {
		s, err := newSite(c.kb)
		if err != nil {
			t.Fatal(err)
		}
		checkLists(t, s.pool, c.least, c.most)
		mean := 0
		for _, l := range s.pool.lists {
			mean += len(l) / listCount
		}
		t.Logf("--list-kb %d: %d bytes on average", c.kb, mean)
		if want := float64(cmp.Or(c.kb, 111)) * 1000; math.Abs(float64(mean)-want) > want*0.02+2250 { // half a product
			t.Errorf("--list-kb %d: %d bytes on average", c.kb, mean)
		}
	}
}

func checkLists(t *testing.T, p *pool, least, most int) {
	t.Helper()
	inPool := map[string]bool{}
	for _, x := range p.products {
		inPool[string(x.json)] = true
	}
	if len(p.lists) != listCount {
		t.Fatalf("%d lists", len(p.lists))
	}
	for i, l := range p.lists {
		var d struct {
			Count    int
			Products []json.RawMessage
		}
		if err := json.Unmarshal(l, &d); err != nil {
			t.Fatalf("list %d: %v", i, err)
		}
		if n := len(d.Products); n != d.Count || n < least || n > most {
			t.Errorf("list %d says %d products, has %d", i, d.Count, n)
		}
		seen := map[string]bool{}
		for _, x := range d.Products {
			if !inPool[string(x)] || seen[string(x)] {
				t.Errorf("list %d: not of the pool, or twice: %.60s", i, x)
			}
			seen[string(x)] = true
		}
	}
}
