// Command products writes server/products.ndjson.zst, the products that ceiling's servers serve:
// their brands on the first line, then one product per line. They are generated once and checked
// in, because the generating library adds 0.9 ms to every start of a program that links it. From
// the root: go -C internal/tools run ./products | zstd --ultra -22 > server/products.ndjson.zst
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/brianvoe/gofakeit/v7"
)

const (
	productCount = 500
	brandCount   = 40

	// paragraphCount paragraphs of at least leastParagraph to mostParagraph bytes give a product 4.51
	// KB on average, which gzip at its default level compresses by a factor of 1.96: TestProducts
	// checks both.
	paragraphCount = 5
	leastParagraph = 586
	mostParagraph  = 706

	// Product i uses the PCG with seed poolSeed and stream i. The stream after the products is
	// the brands'.
	poolSeed    = 1
	brandStream = productCount
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "products:", err)
		os.Exit(1)
	}
}

func write(to io.Writer) error {
	lines := json.NewEncoder(to)
	brands := makeBrands()
	if err := lines.Encode(brands); err != nil {
		return err
	}
	for i := range productCount {
		f := newFaker(uint64(i))
		cents, brand := f.Number(199, 249_999), f.Number(0, brandCount-1)
		d := makeDocument(f)
		d.Brand, d.Price = brands[brand], float64(cents)/100
		if err := lines.Encode(d); err != nil {
			return err
		}
	}
	return nil
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

// newFaker returns a source of data that depends only on its stream. Only in this form does
// gofakeit take no lock.
func newFaker(stream uint64) *gofakeit.Faker {
	return gofakeit.NewFaker(rand.NewPCG(poolSeed, stream), false)
}

func makeBrands() []string {
	f := newFaker(brandStream)
	seen := map[string]bool{}
	var brands []string
	for len(brands) < brandCount {
		// Company would return real companies, which fictional data must not describe.
		if b := f.LastName() + " " + f.CompanySuffix(); !seen[b] {
			seen[b] = true
			brands = append(brands, b)
		}
	}
	return brands
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
	var paragraphs [paragraphCount]string
	for i := range paragraphs {
		paragraphs[i] = makeParagraph(f)
	}
	d.Description = strings.Join(paragraphs[:], "\n\n")
	for range f.Number(5, 15) {
		d.Tags = append(d.Tags, f.Word())
	}
	for range f.Number(3, 8) {
		d.Images = append(d.Images, "https://images.example.com/"+f.UUID()+".jpg")
	}
	return d
}

// makeParagraph returns a sentence from a template, and sentences of words without one, so that it
// compresses like prose.
func makeParagraph(f *gofakeit.Faker) string {
	text := f.ProductDescription()
	for length := f.Number(leastParagraph, mostParagraph); len(text) < length; {
		text += " " + makeSentence(f)
	}
	return text
}

func makeSentence(f *gofakeit.Faker) string {
	var clauses []string
	for range f.Number(2, 5) {
		clauses = append(clauses, strings.Join([]string{
			f.AdverbManner(), f.VerbAction(), f.RandomString([]string{"the", "its"}), f.AdjectiveDescriptive(), f.NounCommon(),
			f.PrepositionSimple(), f.NounConcrete(),
		}, " "))
	}
	sentence := strings.Join(clauses, ", ") + "."
	return strings.ToUpper(sentence[:1]) + sentence[1:]
}
