//go:build !unix

package durable

// Dir does nothing: directories cannot be synced here.
func Dir(string) error { return nil }
