package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// renamedFlags maps the former name of a flag to its new one; both work.
func renamedFlags() map[string]string {
	return map[string]string{"most": "max-rate", "apart": "separate-cpus", "link": "link-speed", "within": "precision", "rest": "pause",
		"no-lone": "no-unloaded"}
}

// renameFlags accepts the flags of a root under their former names, and prints the new ones.
func renameFlags(root *cobra.Command) {
	renamed, told := renamedFlags(), map[string]bool{}
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		now := renamed[name]
		if now == "" {
			return pflag.NormalizedName(name)
		}
		if !told[name] { // pflag asks for a name more than once
			told[name] = true
			fmt.Fprintf(root.ErrOrStderr(), "%s: --%s is now --%s\n", root.Name(), name, now)
		}
		return pflag.NormalizedName(now)
	})
}
