package proxy

import (
	"net/netip"
	"time"

	"ceiling/proxy/access"
	"ceiling/proxy/config"
)

// entrance decides whose requests a location takes; nil for everyone's.
type entrance struct {
	networks  *access.Networks // nil for all
	realm     string           // of passwords
	passwords *access.Passwords
	forward   *access.Forward
	unasked   trouble // with asking it
	cors      *access.CORS
}

func entranceOf(c *config.Access) (*entrance, error) {
	if c == nil {
		return nil, nil
	}
	e := &entrance{}
	if len(c.Allow)+len(c.Deny) > 0 {
		allow, err := networksOf(c.Allow)
		if err != nil {
			return nil, err
		}
		deny, err := networksOf(c.Deny)
		if err != nil {
			return nil, err
		}
		e.networks = access.NewNetworks(allow, deny)
	}
	if b := c.BasicAuth; b != nil {
		e.realm, e.passwords = b.Realm, access.NewPasswords(b.Users)
	}
	if f := c.ForwardAuth; f != nil {
		e.forward = access.NewForward(f.URI, copiedOf(f), f.Timeout.Or(5*time.Second))
	}
	if o := c.CORS; o != nil {
		e.cors = access.NewCORS(o.Origins, o.Methods, o.Headers, o.Expose, o.Credentials, o.MaxAge.Or(10*time.Minute))
	}
	return e, nil
}

// copiedOf returns the fields that requests carry on.
func copiedOf(f *config.ForwardAuth) (list []access.Copied) {
	for _, text := range f.CopyHeaders {
		list = append(list, access.CopiedOf(text))
	}
	return list
}

func networksOf(list []string) (all []netip.Prefix, err error) {
	for _, text := range list {
		some, err := config.AccessNetwork(text)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
