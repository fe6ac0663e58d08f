package export

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"ceiling/internal/secret"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// JSON writes the run's document with its histograms inside (latency.*.hdr) and its secrets
// redacted. It omits a missing histogram and reports the reason in Problems.
func JSON(out io.Writer, s *Source) error {
	run := s.Run.Concealed(secret.Plain())
	for of, q := range map[string]*record.Quantiles{
		"response": &run.Latency.Response, "service": &run.Latency.Service, "lag": &run.Latency.Lag,
	} {
		if _, err := s.Histogram(of); err != nil {
			s.Problems = append(s.Problems, err.Error())
			continue
		}
		text, err := s.text(of)
		if err != nil {
			return err
		}
		q.HDR = text
	}
	run.Verdict = prose.Spell(run.Verdict)
	return record.WriteJSON(out, &run)
}

// NDJSON writes the rows of a series as one JSON object per line in valid UTF-8; kind "" writes
// all rows. Memory use is one row.
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
