// Command ceiling-proxy is a reverse proxy and static file server, and races it against others.
package main

import (
	"os"

	"ceiling/cmd/internal/proxies"
)

func main() { os.Exit(proxies.Main()) }
