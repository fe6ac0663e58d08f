package perturb

// Request says what a proof would perturb.
type Request struct {
	// Share of a resource to take, above 0 and at most ShareMax.
	Share float64
	// PIDs of the server's processes; none if it runs on another host.
	PIDs []int
	// PinGenerator and PinServer are the user's CPU lists, "": none.
	PinGenerator, PinServer string
	// Connections and Pipelining of the undisturbed runs; Threads of the generator as requested, 0:
	// automatic.
	Connections, Pipelining, Threads int
	// Interface whose rate may be lowered, in Namespace; "": none. LinkBitsPerS is its speed as
	// given by the user, 0: unknown.
	Interface, Namespace string
	LinkBitsPerS         float64
	// Program has the verb hog; "": this program.
	Program string
}
