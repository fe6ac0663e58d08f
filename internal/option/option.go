// Package option reads what a flag says that has several settings in one word, such as
// work=2ms,slots=20.
package option

import (
	"fmt"
	"strings"
)

// Own leaves every setting as it is.
const Own = "own"

// Read hands each "name=value" to set; an error of it says which, and how to write it:
// form is an example. Own has none.
func Read(text, form string, set func(name, value string) error) error {
	if text == Own {
		return nil
	}
	for field := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(field, "=")
		if err := set(name, value); err != nil {
			return fmt.Errorf("%q: %w; write it like %s", field, err, form)
		}
	}
	return nil
}
