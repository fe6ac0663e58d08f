package server

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	productCount = 500
	listCount    = 8

	// listProducts is the mean number of products in a list, ± listSpread per cent, unless
	// Config.ListKB sets another size: 20 to 30, 111 KB on average.
	listProducts = 25
	listSpread   = 20

	// The lists use the PCG with seed poolSeed and stream listStream, the stream after those for
	// the products (internal/tools/products) and their brands.
	poolSeed   = 1
	listStream = productCount + 1
)

// A pool is the data of all routes. It is immutable, so all threads read it without locks.
type pool struct {
	hello    []byte
	ok       []byte
	products []product
	brands   [][]byte // quoted for JSON
	lists    [][]byte
}

// A product is a product of the pool, with its served forms.
type product struct {
	Product
	json  []byte
	gzip  []byte // json, compressed
	brand int    // index into pool.brands
}

// Product is what the JSON of a product says.
type Product struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Brand       string     `json:"brand"`
	Category    string     `json:"category"`
	Price       float64    `json:"price"`
	Rating      float64    `json:"rating"`
	ReviewCount int        `json:"review_count"`
	Description string     `json:"description"`
	Tags        []string   `json:"tags"`
	Attributes  Attributes `json:"attributes"`
	Images      []string   `json:"images"` // addresses
}

// Attributes are a product's properties.
type Attributes struct {
	Colour   string `json:"colour"`
	Material string `json:"material"`
	Size     string `json:"size"`
	WeightG  int    `json:"weight_g"`
	Feature  string `json:"feature"`
	Use      string `json:"use"`
	Country  string `json:"country_of_origin"`
}

// productFile has the brands on its first line, then one product per line, compressed;
// internal/tools/products creates it.
//
//go:embed products.ndjson.zst
var productFile []byte

// newPool reads the pool, and compresses each product for serving: about 40 ms of CPU, most of it
// for compression, which runs on all of the runtime's processors.
func newPool() (*pool, error) {
	p := &pool{
		hello: []byte(`{"message":"hi"}`),
		ok:    []byte("ok\n"),
	}
	if err := p.read(); err != nil {
		return nil, fmt.Errorf("read the products that are built in: %w", err)
	}
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = p.compress(w, workers) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.lists = makeLists(p.products, listProducts)
	return p, nil
}

// withLists returns the pool with lists of about kb thousand bytes. It shares everything else.
func (p *pool) withLists(kb int) *pool {
	other := *p
	all := 0
	for _, x := range p.products {
		all += len(x.json)
	}
	other.lists = makeLists(p.products, (kb*1000*len(p.products)+all/2)/all)
	return &other
}

// read parses the file's brands and products.
func (p *pool) read() error {
	z, err := zstd.NewReader(nil)
	if err != nil {
		return err
	}
	defer z.Close()
	text, err := z.DecodeAll(productFile, nil)
	if err != nil {
		return err
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	var brands []string
	if err := json.Unmarshal(head, &brands); err != nil {
		return err
	}
	for _, b := range brands {
		quoted, err := json.Marshal(b)
		if err != nil {
			return err
		}
		p.brands = append(p.brands, quoted)
	}
	for line := range bytes.Lines(rest) {
		one := product{json: bytes.TrimSuffix(line, []byte("\n"))}
		if err := json.Unmarshal(one.json, &one.Product); err != nil {
			return err
		}
		if one.brand = slices.Index(brands, one.Brand); one.brand < 0 {
			return fmt.Errorf("brand %q is not among the brands", one.Brand)
		}
		p.products = append(p.products, one)
	}
	if len(p.products) != productCount {
		return fmt.Errorf("%d products, not %d", len(p.products), productCount)
	}
	return nil
}

// compress compresses every step-th product, from the first on.
func (p *pool) compress(first, step int) error {
	z, err := gzip.NewWriterLevel(nil, gzip.DefaultCompression)
	if err != nil {
		return fmt.Errorf("compress products: %w", err)
	}
	for i := first; i < productCount; i += step {
		var packed bytes.Buffer
		z.Reset(&packed)
		_, err := z.Write(p.products[i].json)
		if err := errors.Join(err, z.Close()); err != nil {
			return fmt.Errorf("compress product %d: %w", i, err)
		}
		p.products[i].gzip = bytes.Clone(packed.Bytes())
	}
	return nil
}

// makeLists builds the responses of /list: from listSpread per cent below n products to as many
// above, in even steps, so that the mean length is n. No list contains a product twice.
func makeLists(products []product, n int) [][]byte {
	draw := rand.New(rand.NewPCG(poolSeed, listStream))
	lists := make([][]byte, listCount)
	spread := n * listSpread / 100
	for i := range lists {
		chosen := draw.Perm(len(products))[:n-spread+2*spread*i/(listCount-1)]
		body := fmt.Appendf(nil, `{"count":%d,"products":[`, len(chosen))
		for k, n := range chosen {
			if k > 0 {
				body = append(body, ',')
			}
			body = append(body, products[n].json...)
		}
		lists[i] = append(body, "]}"...)
	}
	return lists
}
