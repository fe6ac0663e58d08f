package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"

	"github.com/brianvoe/gofakeit/v7"
	"github.com/klauspost/compress/gzip"
)

const (
	productCount = 500
	brandCount   = 40
	listCount    = 8
	listMin      = 20 // products in a list
	listMax      = 30

	// Product i is made from the PCG with seed poolSeed and stream i. The streams after the products are the brands'
	// and the lists'.
	poolSeed    = 1
	brandStream = productCount
	listStream  = productCount + 1
)

// A pool is everything the routes answer from. It never changes once it is made, so all threads read it freely.
type pool struct {
	hello    []byte
	ok       []byte
	products []product
	brands   [][]byte // quoted for JSON
	lists    [][]byte
}

// A product is one of the pool's, in the forms in which it is served.
type product struct {
	json       []byte
	gzip       []byte // json, compressed
	id         []byte // quoted for JSON
	priceCents int64
	brand      int // index into pool.brands
}

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

// newPool makes the pool, which takes about 45 ms of CPU, divided among the processors the runtime may use.
func newPool() (*pool, error) {
	p := &pool{
		hello:    []byte(`{"message":"hi"}`),
		ok:       []byte("ok\n"),
		products: make([]product, productCount),
	}
	brands := makeBrands()
	for _, b := range brands {
		quoted, err := json.Marshal(b)
		if err != nil {
			return nil, fmt.Errorf("encode brand: %w", err)
		}
		p.brands = append(p.brands, quoted)
	}
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { errs[w] = p.fill(w, workers, brands) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.lists = makeLists(p.products)
	return p, nil
}

// fill makes every step-th product, from the first on.
func (p *pool) fill(first, step int, brands []string) error {
	z, err := gzip.NewWriterLevel(nil, gzip.DefaultCompression)
	if err != nil {
		return fmt.Errorf("compress products: %w", err)
	}
	for i := first; i < productCount; i += step {
		if p.products[i], err = makeProduct(i, brands, z); err != nil {
			return fmt.Errorf("make product %d: %w", i, err)
		}
	}
	return nil
}

// newFaker returns a source of data that depends on its stream alone. In this form, and in no other, gofakeit takes
// no lock.
func newFaker(stream uint64) *gofakeit.Faker {
	return gofakeit.NewFaker(rand.NewPCG(poolSeed, stream), false)
}

func makeBrands() []string {
	f := newFaker(brandStream)
	seen := map[string]bool{}
	var brands []string
	for len(brands) < brandCount {
		// Company would return real ones, of which nothing should be said that is not so.
		if b := f.LastName() + " " + f.CompanySuffix(); !seen[b] {
			seen[b] = true
			brands = append(brands, b)
		}
	}
	return brands
}

func makeProduct(i int, brands []string, z *gzip.Writer) (product, error) {
	f := newFaker(uint64(i))
	cents, brand := f.Number(199, 249_999), f.Number(0, brandCount-1)
	d := makeDocument(f)
	d.Brand, d.Price = brands[brand], float64(cents)/100
	body, err := json.Marshal(d)
	if err != nil {
		return product{}, err
	}
	id, err := json.Marshal(d.ID)
	if err != nil {
		return product{}, err
	}
	var packed bytes.Buffer
	z.Reset(&packed)
	_, err = z.Write(body)
	if err := errors.Join(err, z.Close()); err != nil {
		return product{}, err
	}
	return product{json: body, gzip: bytes.Clone(packed.Bytes()), id: id, priceCents: int64(cents), brand: brand}, nil
}

func makeDocument(f *gofakeit.Faker) document {
	d := document{
		ID:          f.UUID(),
		Name:        f.ProductName(),
		Category:    f.ProductCategory(),
		Rating:      float64(f.Number(10, 50)) / 10,
		ReviewCount: f.Number(0, 20_000),
		Attributes: attributes{
			Colour:    f.Color(),
			Material:  f.ProductMaterial(),
			Size:      f.ProductDimension(),
			WeightG:   f.Number(20, 30_000),
			Feature:   f.ProductFeature(),
			Use:       f.ProductUseCase(),
			CountryOf: f.Country(),
		},
	}
	var paragraphs [5]string
	for i := range paragraphs {
		paragraphs[i] = makeParagraph(f)
	}
	d.Description = strings.Join(paragraphs[:], "\n\n")
	for range f.Number(5, 15) {
		d.Tags = append(d.Tags, f.Word())
	}
	for n := range f.Number(3, 8) {
		d.Images = append(d.Images, fmt.Sprintf("https://images.example.com/%s/%d.jpg", d.ID, n))
	}
	return d
}

// makeParagraph returns 340 to about 850 bytes of prose: five of them bring a product to between 3 and 5 KB.
func makeParagraph(f *gofakeit.Faker) string {
	atLeast := f.Number(340, 700)
	text := f.ProductDescription()
	for len(text) < atLeast {
		text += " " + f.ProductDescription()
	}
	return text
}

// makeLists makes the answers of /list. A list has no product twice.
func makeLists(products []product) [][]byte {
	draw := rand.New(rand.NewPCG(poolSeed, listStream))
	lists := make([][]byte, listCount)
	for i := range lists {
		chosen := draw.Perm(len(products))[:listMin+draw.IntN(listMax-listMin+1)]
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
