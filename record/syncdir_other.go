//go:build !unix

package record

// syncDir does nothing: directories cannot be synced here.
func syncDir(string) error { return nil }
