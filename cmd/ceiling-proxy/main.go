// Command ceiling-proxy is a reverse proxy and static file server.
package main

import (
	"os"

	"ceiling/cmd/internal/proxies"
)

func main() { os.Exit(proxies.Main()) }
