// Package option parses a flag that holds several settings in one word, such as
// work=2ms,slots=20.
package option

import (
	"fmt"
	"strings"
)

// Own keeps every default.
const Own = "own"

// Read passes each "name=value" to set. An error of set is returned with the setting and form, an
// example of the syntax. Own has no settings.
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
