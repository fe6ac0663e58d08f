package reference

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPage: names are those of the format, a comment over two fields makes one row, and a struct is written where it is held
// first.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	text := `package shop
// Kind is a constant.
const Kind = "small"
// Order is what is asked. TLS is not a field here.
type Order struct {
	// Items counts them, Weight is theirs.
	Items  int ` + "`json:\"items\"`" + `
	Weight int ` + "`json:\"weight_kg\"`" + `
	Sizes  []Size ` + "`json:\"sizes\"`" + ` // of Items, such as Kind
	inner  int
	Skipped int ` + "`json:\"-\"`" + `
}
// Size is a size.
type Size struct {
	Width int ` + "`json:\"width\"`" + `
}
`
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read("json", nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := f.Page("# Title\n", Part{"All", []string{"shop.Order"}})
	const want = `# Title

## All

### order

Order is what is asked. TLS is not a field here.

| field | written as | meaning |
|---|---|---|
| ` + "`items`, `weight_kg` | number | `items` counts them, `weight_kg` is theirs." + ` |
| ` + "`sizes` | list of [size](#size) | of `items`, such as `small` |" + `

### size

Size is a size.

| field | written as | meaning |
|---|---|---|
| ` + "`width`" + ` | number |  |
`
	if err != nil || page != want {
		t.Errorf("%v\n%s", err, page)
	}
	if _, err := f.Page("", Part{"All", []string{"shop.None"}}); err == nil {
		t.Error("a struct that is not there has a page")
	}
}
