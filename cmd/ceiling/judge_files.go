package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/internal/exit"
	"ceiling/record"
	"ceiling/show/importer"
	"ceiling/show/report"
	"ceiling/verdict/audit"
)

// judgeFile judges a points file or another tool's output, from a file or, as "-", from standard
// input.
func (sh *shell) judgeFile(name string, asJSON, verbose bool) error {
	var in io.Reader = sh.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return command.Usage(err)
		}
		defer f.Close()
		in = f
	}
	// A points file starts a line with its key; comments before it are short.
	buffered := bufio.NewReaderSize(in, 64<<10)
	head, err := buffered.Peek(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return command.Usage(fmt.Errorf("%s: %w", name, err))
	}
	if record.Is(head) {
		file, err := record.ReadFile(buffered)
		if err != nil {
			return command.Usage(err)
		}
		return sh.judgeRecord(file.Named(name), asJSON, verbose)
	}
	if isYAML(name) || regexp.MustCompile(`(?m)^points:`).Match(head) {
		return judgePoints(sh, name, buffered, asJSON)
	}
	return judgeImported(sh, name, buffered, asJSON)
}

// judgePoints returns exit code 2 if the file has unreadable values: it judges their points
// without them.
func judgePoints(sh *shell, name string, in io.Reader, asJSON bool) error {
	points, err := record.ReadPoints(in)
	if err != nil {
		return command.Usage(fmt.Errorf("%s: %w", name, err))
	}
	judged := audit.Judge(points.Points)
	if asJSON {
		err = report.WritePointsJSON(sh.Stdout, &points, &judged)
	} else {
		err = report.WritePoints(sh.Stdout, &points, &judged, records.Layout(sh.Stdout, false))
	}
	if err != nil {
		return err
	}
	if n := len(points.Mistakes); n > 0 {
		return command.Usage(fmt.Errorf("%s: %d values could not be read; they are listed above", name, n))
	}
	return nil
}

func judgeImported(sh *shell, name string, in io.Reader, asJSON bool) error {
	r, err := importer.Read(in)
	if err != nil {
		return command.Usage(fmt.Errorf("%s: %w", name, err))
	}
	judged := audit.Judge([]record.Point{r.Point(name)}).Points[0]
	if judged.Verdict.Outcome == record.Invalid {
		sh.Exit = exit.Invalid
	}
	if asJSON {
		return report.WriteImportedJSON(sh.Stdout, name, &r, &judged)
	}
	return report.Imported(sh.Stdout, name, &r, &judged, records.Layout(sh.Stdout, false))
}
