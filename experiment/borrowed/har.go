package borrowed

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"ceiling/experiment/spec"
)

// har is the part of a recording that has its requests (HAR 1.2).
type har struct {
	Entries []struct {
		Request struct {
			Method  string `json:"method"`
			URL     string `json:"url"`
			Headers []struct {
				Name  string `json:"name"`
				Value string `json:"value"`
			} `json:"headers"`
			PostData *struct {
				Text     string `json:"text"`
				Encoding string `json:"encoding"`
			} `json:"postData"`
		} `json:"request"`
	} `json:"entries"`
}

// readHAR reads the requests of a recording. Those of the browser itself, and to WebSockets, are left
// out.
func readHAR(log json.RawMessage) (*Set, error) {
	var h har
	if err := json.Unmarshal(log, &h); err != nil {
		return nil, fmt.Errorf("not a HAR: %w", err)
	}
	s := &Set{}
	other := 0
	for i := range h.Entries {
		q := &h.Entries[i].Request
		if !strings.HasPrefix(q.URL, "http://") && !strings.HasPrefix(q.URL, "https://") {
			other++
			continue
		}
		r := Request{Method: q.Method, URL: q.URL}
		for _, f := range q.Headers {
			if !sent(f.Name) {
				r.Header = append(r.Header, spec.Field{Name: f.Name, Value: f.Value})
			}
		}
		if q.PostData != nil {
			r.Body = []byte(q.PostData.Text)
			if q.PostData.Encoding == "base64" {
				body, err := base64.StdEncoding.DecodeString(q.PostData.Text)
				if err != nil {
					return nil, fmt.Errorf("entry %d: its body is not base64: %w", i+1, err)
				}
				r.Body = body
			}
		}
		s.Requests = append(s.Requests, r)
	}
	if other > 0 {
		s.Left = append(s.Left, fmt.Sprintf("left out: %d that are not http:// or https://", other))
	}
	return s, nil
}
