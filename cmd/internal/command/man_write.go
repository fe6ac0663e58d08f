//go:build man

package command

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// addMan adds the verb that writes the manual pages of all verbs into a directory:
// go run -tags man ./cmd/ceiling man DIR. Their date is SOURCE_DATE_EPOCH, so that a build of the same
// commit has the same pages.
func addMan(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
			if err != nil {
				return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
			}
			date := time.Unix(epoch, 0).UTC()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: root.Name(), Manual: root.Name()}, args[0])
		},
	})
}
