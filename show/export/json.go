package export

import (
	"io"

	"ceiling/internal/secret"
	"ceiling/record"
)

// JSON writes the run's document with its histograms in it (latency.*.hdr), and
// without the secrets that it was asked to keep. A
// histogram that is not there is left out, and why is put into Problems.
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
	return record.WriteJSON(out, &run)
}
