package planted

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
)

// serveSync has every request write to one file and wait until that is on the disk,
// as a database does that keeps a log. The file has no name, so that none is left.
func serveSync(ctx context.Context, p *Params, ready func(string)) error {
	f, err := os.CreateTemp("", "ceiling-planted-sync")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("hide the file: %w", err)
	}
	const room = 1 << 20 // it is written over from the start again
	block, at := make([]byte, 4096), int64(0)
	var log sync.Mutex
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		log.Lock()
		_, err := f.WriteAt(block, at)
		if err == nil {
			err = f.Sync()
		}
		at = (at + int64(len(block))) % room
		log.Unlock()
		reply(w, err)
	})
}
