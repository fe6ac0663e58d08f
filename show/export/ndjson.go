package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"ceiling/record"
)

// NDJSON writes the rows of a series, one JSON object a line in valid UTF-8; kind "" writes
// all of them. It needs the memory of one row.
func NDJSON(out io.Writer, rows *record.Rows, kind string) error {
	w := bufio.NewWriter(out)
	for {
		k, line, err := rows.Next()
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return err
		}
		if kind != "" && k != kind {
			continue
		}
		w.Write(bytes.ToValidUTF8(line, []byte("\uFFFD")))
		if err := w.WriteByte('\n'); err != nil { // a bufio.Writer keeps its first error
			return fmt.Errorf("write row: %w", err)
		}
	}
}
