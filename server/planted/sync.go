package planted

import (
	"context"
	"net/http"
	"sync"
)

// serveSync has every request write to one file and wait until that is on the disk,
// as a database does that keeps a log.
func serveSync(ctx context.Context, p *Params, ready func(string)) error {
	if isDisk() {
		return serveDisk()
	}
	f, err := newSlowDisk(p.Sleep)
	if err != nil {
		return err
	}
	defer f.Close()
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
