//go:build !unix

package bus

import "os"

// likeDirectory has nothing to do: a file inherits the rights of its directory.
func likeDirectory(*os.File) error { return nil }
