package accounts

import "slices"

// Bounds of a portal's look and of its links.
const (
	MaxPortalLogo = 32 << 10
	// MaxPortalLinkMS is the longest life of a link to the portal: what ended links is forgotten then.
	MaxPortalLinkMS = 7 * DayMS
	// maxLinkEnds bounds the customers whose links were ended within that time.
	maxLinkEnds = 10_000
)

// Portal is how the pages of an environment's customers look.
type Portal struct {
	Colour    string `wire:"1"` // #rrggbb; empty is the standard one
	LogoMedia string `wire:"2"` // empty without a logo
	Logo      []byte `wire:"3"`
}

// LinksEnd ends the links of a customer, or of all customers where it is 0, that were made up to
// the millisecond after an instant of log time.
type LinksEnd struct {
	Customer uint32 `wire:"1"`
	At       int64  `wire:"2"`
}

// PortalLook is that of SetPortal.
func (e *Environment) PortalLook() Portal {
	if p := e.Portal.Load(); p != nil {
		return *p
	}
	return Portal{}
}

// EndedLinks are the ends of links that still matter.
func (e *Environment) EndedLinks() []LinksEnd {
	if list := e.LinkEnds.Load(); list != nil {
		return *list
	}
	return nil
}

// EndLinks ends the links that a customer has at an instant, also those that were made after an
// earlier end of the same instant. Where too many customers' were ended lately, it ends those of
// all customers: the list stays bounded, and no ended link comes back.
func (e *Environment) EndLinks(customer uint32, at int64) {
	at = max(at, e.LinksEnded(customer))
	list := slices.DeleteFunc(slices.Clone(e.EndedLinks()), func(l LinksEnd) bool {
		return l.Customer == customer || l.At < at-MaxPortalLinkMS
	})
	if len(list) >= maxLinkEnds {
		for _, l := range list {
			at = max(at, l.At+1)
		}
		list, customer = nil, 0
	}
	list = append(list, LinksEnd{customer, at})
	e.LinkEnds.Store(&list)
}

// LinksEnded is the instant up to which links of a customer are not valid any more; 0: all are. A
// link is dated one millisecond behind all that was applied, so what ended it has an earlier stamp.
func (e *Environment) LinksEnded(customer uint32) (at int64) {
	for _, l := range e.EndedLinks() {
		if l.Customer == customer || l.Customer == 0 {
			at = max(at, l.At+1)
		}
	}
	return at
}
