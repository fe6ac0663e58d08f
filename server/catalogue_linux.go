package server

// preforks: sockets can share a port, and the kernel distributes the connections.
const preforks = true

// onLinux are the frameworks that need it.
func onLinux() []framework {
	return []framework{
		{Kind{Name: "fiber-prefork", About: "fiber with its own prefork: as many processes as its GOMAXPROCS", Memory: true, Plain: true, Forks: true},
			mountFiber, serveFiberPrefork},
		{Kind{Name: "floor", About: "minimal io_uring server: its cost is close to the kernel's", Memory: true, Plain: true, HTTP2: true}, mountFloor, nil},
	}
}
