package perturb

import "ceiling/experiment/spec"

// Request says what a proof would perturb.
type Request struct {
	// Share of a resource to take, above 0 and at most ShareMax.
	Share float64
	// PIDs of the server's processes; none if it runs on another host.
	PIDs []int
	// PinGenerator and PinServer are the user's CPU lists, "": none.
	PinGenerator, PinServer string
	// Condition of the undisturbed runs.
	spec.Condition
	// Interface whose rate may be lowered, in Namespace; "": none. LinkBitsPerS is its speed as
	// given by the user, 0: unknown.
	Interface, Namespace string
	LinkBitsPerS         float64
	// Program has the verb hog; "": this program.
	Program string
}
