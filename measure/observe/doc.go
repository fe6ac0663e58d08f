// Package observe samples what a host did while a run was under way: its CPUs,
// the server's processes, the queues of the run's own sockets, the network
// devices and the kernel's counters of trouble.
//
// Every kernel source has a file of its own. Reading is apart from parsing, so
// that the parsers are tested with text from real machines; they are written
// by hand and do not allocate, because a sampler that disturbs the machine
// measures itself: /proc/stat of 128 CPUs costs 25 µs this way and twenty
// times that with fmt.Sscanf.
//
// Everything works without root as far as the kernel allows. What it does not
// allow, or does not have, is a record.NotMeasured with the reason; nothing is
// guessed. A source that fails half-way is lost from then on, with the time,
// and the run goes on; a process that cannot be read costs its own rows only.
//
// Generator and server on one host may be in two network namespaces. Each end
// of the connections, and of the link between them, is read in its own.
//
// Sources that are read together form a round. Each round has a share of one
// core that it may use; what it uses beyond that it waits off, so the observer
// stays below one per cent of a core however many CPUs, threads and sockets
// there are. What it did cost is in the record.
package observe
