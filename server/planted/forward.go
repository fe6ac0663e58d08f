package planted

import (
	"context"
	"io"
	"net/http"
)

// serveForward calls another server before it responds, over a limited or unlimited number of
// connections.
func serveForward(ctx context.Context, p *Params, ready func(string)) error {
	transport := &http.Transport{
		MaxConnsPerHost:     p.N, // 0 for no limit
		MaxIdleConnsPerHost: countMax,
		DisableCompression:  true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, r *http.Request) {
		if err := ask(r.Context(), client, "http://"+p.To+"/"); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		ok(w)
	})
}

// ask makes one request and reads the response completely, so that the connection can be reused.
func ask(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
