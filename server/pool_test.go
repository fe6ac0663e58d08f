package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// document is a product as JSON.
type document struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Brand       string     `json:"brand"`
	Category    string     `json:"category"`
	Price       float64    `json:"price"`
	Rating      float64    `json:"rating"`
	ReviewCount int        `json:"review_count"`
	Description string     `json:"description"`
	Tags        []string   `json:"tags"`
	Attributes  attributes `json:"attributes"`
	Images      []string   `json:"images"`
}

type attributes struct {
	Colour    string `json:"colour"`
	Material  string `json:"material"`
	Size      string `json:"size"`
	WeightG   int    `json:"weight_g"`
	Feature   string `json:"feature"`
	Use       string `json:"use"`
	CountryOf string `json:"country_of_origin"`
}

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
	const want = "50ed56f983db8fe9eeb90a3d643be40dcf534b867d557813a358afe15385aeab"
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
	least, most, packed := len(p.products[0].json), 0, 0
	for i, x := range p.products {
		var d document
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
		check(len(x.json) >= 3000 && len(x.json) <= 5000, "size")
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
		var brand, id string
		check(json.Unmarshal(p.brands[x.brand], &brand) == nil && brand == d.Brand, "brand")
		check(json.Unmarshal(x.id, &id) == nil && id == d.ID, "quoted id")
		check(int64(d.Price*100+0.5) == x.priceCents && x.priceCents > 0, "price")
		check(bytes.Equal(unzip(t, x.gzip), x.json) && len(x.gzip) < len(x.json), "gzip")
		packed += len(x.gzip)
	}
	t.Logf("products of %d to %d bytes; compressed, %d on average", least, most, packed/len(p.products))
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
	p := mustPool(t)
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
		if n := len(d.Products); n != d.Count || n < listMin || n > listMax {
			t.Errorf("list %d says %d products, has %d", i, d.Count, n)
		}
		seen := map[string]bool{}
		for _, x := range d.Products {
			if !inPool[string(x)] || seen[string(x)] {
				t.Errorf("list %d: not of the pool, or twice: %.60s", i, x)
			}
			seen[string(x)] = true
		}
		if len(l) < 70_000 || len(l) > 130_000 {
			t.Errorf("list %d has %d bytes", i, len(l))
		}
	}
}

func BenchmarkNewPool(b *testing.B) {
	for b.Loop() {
		if _, err := newPool(); err != nil {
			b.Fatal(err)
		}
	}
}
