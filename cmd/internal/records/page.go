package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ceiling/cmd/internal/command"
	"ceiling/show/page"
)

// FormOf chooses the page's format by the file's extension.
func FormOf(out string) (func(io.Writer, page.Document) error, error) {
	switch ending := strings.ToLower(filepath.Ext(out)); {
	case out == "":
		return nil, errors.New("which file to write? -o report.html or -o report.md")
	case ending == ".html" || ending == ".htm":
		return page.HTML, nil
	case ending == ".md" || ending == ".markdown":
		return page.Markdown, nil
	case ending == ".pdf":
		return nil, fmt.Errorf("%s: PDF is not written; write an .html file and print it in a browser", out)
	}
	return nil, fmt.Errorf("%s: unknown extension (use .html or .md)", out)
}

// CheckForm refuses a --report that cannot be written as a page; "" asks for none.
func CheckForm(report string) error {
	if report == "" {
		return nil
	}
	if _, err := FormOf(report); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// Result is a result with a text, a page and a JSON document, which is itself.
type Result interface {
	Page() page.Document
	Write(w io.Writer) error
}

// Show writes a result's page into the file of --report, if one was asked for, and prints the result:
// as text, or with --json as JSON.
func Show(sh *command.Shell, r Result, report string, asJSON bool) error {
	if err := writePage(sh, report, r.Page); err != nil {
		return err
	}
	if !asJSON {
		return sh.Folded(r.Write)
	}
	e := json.NewEncoder(sh.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func writePage(sh *command.Shell, report string, document func() page.Document) error {
	if report == "" {
		return nil
	}
	write, err := FormOf(report)
	if err != nil {
		return err
	}
	if err := WriteWhole(report, func(w io.Writer) error { return write(w, document()) }); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	fmt.Fprintf(sh.Stderr, "written: %s\n", report)
	return nil
}

// WriteWhole writes a file atomically.
func WriteWhole(path string, content func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".ceiling-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no-op after the rename
	err = content(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
