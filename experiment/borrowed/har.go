package borrowed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
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
			BodySize int `json:"bodySize"`
			PostData struct {
				MimeType string     `json:"mimeType"`
				Text     string     `json:"text"`
				Encoding string     `json:"encoding"`
				Params   []harParam `json:"params"`
			} `json:"postData"`
		} `json:"request"`
	} `json:"entries"`
}

// harParam is a field of a form.
type harParam struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// FileName and ContentType are those of a file, whose content may be missing.
	FileName    *string `json:"fileName"`
	ContentType string  `json:"contentType"`
}

// harForm encodes the fields of a form that was recorded without its text; ok: its type says how, and
// their values are there.
func harForm(kind string, params []harParam) (body []byte, ok bool) {
	base, arguments, err := mime.ParseMediaType(kind)
	var pairs []string
	var parts []part
	for _, p := range params {
		if p.FileName != nil && p.Value == "" {
			return nil, false
		}
		pairs = append(pairs, url.QueryEscape(p.Name)+"="+url.QueryEscape(p.Value))
		parts = append(parts, part{p.Name, p.ContentType, p.FileName, []byte(p.Value)})
	}
	switch {
	case err == nil && base == "application/x-www-form-urlencoded":
		return []byte(strings.Join(pairs, "&")), true
	case err == nil && base == "multipart/form-data":
		body, err = multipartOf(parts, arguments["boundary"])
		return body, err == nil
	}
	return nil, false
}

// readHAR reads the requests of a recording; nil for other JSON. Those of the browser itself, and to
// WebSockets, are left out.
func readHAR(data []byte) (*Set, error) {
	var top map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(data)).Decode(&top) != nil || top["log"] == nil {
		return nil, nil // targets' own format has an object a line, and reports what is wrong with it
	}
	var h har
	if err := json.Unmarshal(top["log"], &h); err != nil {
		return nil, fmt.Errorf("not a HAR: %w", err)
	}
	s := &Set{}
	other, bodies := 0, 0
	for i := range h.Entries {
		q := &h.Entries[i].Request
		if !strings.HasPrefix(q.URL, "http://") && !strings.HasPrefix(q.URL, "https://") {
			other++
			continue
		}
		r := spec.Target{Method: q.Method, URL: q.URL, Body: []byte(q.PostData.Text)}
		kind, typed := q.PostData.MimeType, false
		for _, f := range q.Headers {
			if !sent(f.Name) {
				r.Header = append(r.Header, spec.Field{Name: f.Name, Value: f.Value})
			}
			if strings.EqualFold(f.Name, "Content-Type") {
				kind, typed = f.Value, true
			}
		}
		if kind != "" && !typed {
			r.Header = append(r.Header, spec.Field{Name: "Content-Type", Value: kind})
		}
		var err error
		if q.PostData.Encoding == "base64" {
			r.Body, err = base64.StdEncoding.DecodeString(q.PostData.Text)
		}
		has := len(r.Body) > 0 || q.BodySize <= 0
		if q.PostData.Text == "" && len(q.PostData.Params) > 0 {
			r.Body, has = harForm(kind, q.PostData.Params)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("entry %d: its body is not base64: %w", i+1, err)
		case !has:
			bodies++
		default:
			s.Requests = append(s.Requests, r)
		}
	}
	s.leave(other, "request", "to other than http:// or https://")
	s.leave(bodies, "request", "without their body in the recording, or with a changed one")
	return s, nil
}
