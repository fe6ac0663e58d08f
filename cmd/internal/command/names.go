package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// NotFormat refuses the name of a format where the record's file or directory is named: "-o json"
// would make a directory. A directory that is there, and ./json, are meant.
func NotFormat(flag, path string) error {
	base := filepath.Base(path)
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(base), "."))
	bare := format == "" && base == path
	if bare {
		format = strings.ToLower(base)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	advice := ""
	switch {
	case format == "ndjson" && !bare:
		return nil
	case format == "json":
		advice = "for the result as JSON give --json, and redirect it: --json > result.json"
	case slices.Contains([]string{"html", "htm", "md", "markdown", "pdf"}, format):
		advice = "for a page: ceiling report ID -o report.html"
	case slices.Contains([]string{"text", "txt", "table", "stdout", "yaml", "yml", "xml", "junit"}, format):
		advice = "the result is text on the standard output, which can be redirected: > result.txt; or JSON with --json"
	case slices.Contains(Exports(), format):
		advice = "for another format: ceiling export ID --format " + format
	default:
		return nil
	}
	if bare {
		advice += "; for a directory of that name: ./" + base
	}
	return fmt.Errorf("%s %s: that is a format, and %[1]s names the file (NAME.ndjson.gz) or directory to save to; %[3]s", flag, path, advice)
}

// Exports are the formats of package show/export, which not every program links.
func Exports() []string {
	return []string{"json", "ndjson", "csv", "hgrm", "prometheus", "pprof", "folded"}
}
