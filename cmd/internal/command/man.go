//go:build !man

package command

import "github.com/spf13/cobra"

// addMan adds nothing: only a build with the tag man writes manual pages.
func addMan(*cobra.Command) {}
