package compress

import "testing"

func TestBest(t *testing.T) {
	for field, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, br": "br", "gzip, br, zstd": "zstd", "GZIP;Q=0.5, br;q=0.4": "gzip", "br;q=0": "", "*": "zstd",
		"zstd;q=0, *;q=0.1": "br", "deflate": "", "gzip;q=x, br;q=2": "", "identity, gzip;q=0.1": "gzip", " br ; q=0.2 ,gzip;q=0.1": "br",
		"gzip;q=NaN": "",
	} {
		if got := Codings[Best([]byte(field))]; got != want {
			t.Errorf("%q: %q, want %q", field, got, want)
		}
	}
}
