package billing

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"unsafe"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/price"
	"tollgate/engine/rollup"
)

// CustomerUsage is what a customer has used.
//
//schema:answer admin CustomerUsage
type CustomerUsage struct {
	Customer string          `json:"customerReferenceId" rule:"min=1,max=128"`
	Events   int64           `json:"events"`
	Units    decimal.Decimal `json:"usageUnits"`
	// Currency and Price are set in a ranking by price: what the usage adds to bills.
	Currency string `json:"currency,omitzero" rule:"min=3,max=3"`
	HasPrice bool
	Price    decimal.Decimal `json:"price" if:"HasPrice"`
}

// UsageByCustomer ranks the customers of an environment by what they used in a widened query's
// range: of its feature by units, of all features, whose units do not add up, by events. It returns
// so many at most, and how many others there are.
func (m *journalReader) UsageByCustomer(
	src rollup.Source, q *UsageQuery, maximum int,
) (list []CustomerUsage, others int, err error) {
	s := m.state.Load()
	asked := usageOfAll(q)
	sum := summing{env: q.Env, as: func(uint32) uint32 { return 0 }, left: math.MaxInt}
	sums, err := sum.all(src, &asked, s)
	if err != nil {
		return nil, 0, err
	}
	ranked, others := rank(maximum, sums, func(a, b *rollup.Cell) int {
		if q.HasFeature {
			return cmp.Or(b.Units.Cmp(a.Units), cmp.Compare(a.Owner, b.Owner))
		}
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Owner, b.Owner))
	})
	list = []CustomerUsage{}
	for _, c := range ranked {
		list = append(list, CustomerUsage{
			Customer: string(s.ExternalID(s.Customers.Read(uint32(c.Owner)))), Events: c.Events,
			Units: bounded(c.Units),
		})
	}
	return list, others, nil
}

// usageOfAll asks for the usage of all customers in a widened query's range.
func usageOfAll(q *UsageQuery) rollup.Query {
	return rollup.Query{
		Part: journal.PartUsage, Item: q.Feature, HasItem: q.HasFeature,
		From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
		Owner: 1, Through: rollup.Environment(0) - 1,
	}
}

// PriceQuery asks which customers' usage in a range adds most to their bills.
type PriceQuery struct {
	UsageQuery
	Currency string
	Max      int
}

// maxPriced bounds the customers whose usage one ranking prices: the first ones, were each unit
// charged at the highest price of its feature.
const maxPriced = 10_000

// maxRanked bounds the memory of what customers have used of features that a ranking by price adds
// up at once, in bytes: 6.6 million customers and features where the customers lie close together,
// 0.4 million where none is near another. Of more it adds up some after the others, reading the
// journal up to maxParts times, and no ranking by price is made meanwhile. The other rankings are
// not bounded: they have one cell of a customer, or one for each reason.
const (
	maxRanked = 256 << 20
	maxParts  = 256
)

var (
	// ErrRankingTooLarge means that few customers alone used more features than one ranking adds up
	// at once, all of them more than it adds up in parts, or the first of them more than it keeps.
	ErrRankingTooLarge = errors.New("billing: a ranking has too many customers and features")
	// ErrRanking means that others by price are being made, or wait for their turn.
	ErrRanking = errors.New("billing: other rankings by price are being made")
)

// maxPricing is how many rankings by price there may be at once: one, which has the memory, and
// those that wait for their turn. A page makes several, each behind the other.
const maxPricing = 4

// UsageByPrice ranks the customers of an environment by what their usage in a widened query's range
// adds to bills in a currency: by the plan that each has now, after what they used before in the
// billing period, without credits. Usage of an earlier period is priced as if the range began one.
// It returns so many at most, and how many others there are. One is made at a time, and few wait:
// the error may be ErrRanking, or ErrRankingTooLarge.
func (m *journalReader) UsageByPrice(
	src rollup.Source, q *PriceQuery,
) (list []CustomerUsage, others int, err error) {
	defer m.rankings.Add(-1)
	if m.rankings.Add(1) > maxPricing {
		return nil, 0, ErrRanking
	}
	m.pricing.Lock()
	defer m.pricing.Unlock()
	s := m.state.Load()
	e := s.Environment(q.Env)
	if e == nil {
		return []CustomerUsage{}, 0, nil
	}
	p := pricer{
		state: s, env: e, now: e.Now(s.Log.Stamp()), currency: q.Currency,
		room: cmp.Or(m.ranked, maxRanked), used: map[uint32][]pricedUsage{},
		kept: foremost[candidate]{most: maxPriced, order: likelier},
	}
	p.dearest = p.highest()
	asked := usageOfAll(&q.UsageQuery)
	if err = p.read(src, asked); err != nil {
		return nil, 0, err
	}
	likely := p.kept.sorted()
	unpriced := p.kept.added - len(likely)
	asked.From, asked.To = asked.To, math.MaxInt32
	if err = src.Sum(asked, p.addLater); err != nil {
		return nil, 0, fmt.Errorf("billing: add up the journal: %w", err)
	}
	ranked := foremost[CustomerUsage]{most: q.Max, order: func(a, b CustomerUsage) int {
		return cmp.Or(b.Price.Cmp(a.Price), cmp.Compare(a.Customer, b.Customer))
	}}
	for _, c := range likely {
		if u := p.price(c.row); u.Price.Sign() > 0 {
			ranked.add(u)
		}
	}
	list = append([]CustomerUsage{}, ranked.sorted()...)
	return list, ranked.added - len(list) + unpriced, nil
}

// pricer prices the usage of customers.
type pricer struct {
	*state
	env      *accounts.Environment
	now      int64
	currency string
	// room is how many bytes the cells may take that are added up at once.
	room int
	// dearest is the highest price of a unit of each feature that has one.
	dearest map[uint32]decimal.Decimal
	kept    foremost[candidate]
	// used is what the likely customers have used in the range, by feature.
	used map[uint32][]pricedUsage
}

// pricedUsage is what a customer has used of a feature in a range, and after it; 0: of all features
// that have no price.
type pricedUsage struct {
	feature     uint32
	used, later rollup.Cell
}

// candidate is a customer who may be one of the first: weight is what the usage would cost at the
// highest prices.
type candidate struct {
	row    uint32
	weight decimal.Decimal
}

func likelier(a, b candidate) int {
	return cmp.Or(b.weight.Cmp(a.weight), cmp.Compare(a.row, b.row))
}

// read adds up what customers used, in as many parts of their rows as there must be for each to
// have room, and keeps what the likely ones used. One whose customers have no room even alone is
// ErrRankingTooLarge, and so are more than maxParts. The parts are read one after the other: usage
// that is recorded meanwhile may be in the later ones only.
func (p *pricer) read(src rollup.Source, asked rollup.Query) error {
	sum := summing{env: p.env.Number, as: func(feature uint32) uint32 {
		if p.dearest[feature].IsZero() {
			return 0 // it only counts
		}
		return feature
	}}
	last, width := asked.Through, max(p.Customers.Len(), 1)
	from := uint32(1)
	for range maxParts {
		through := from + width - 1
		asked.Owner, asked.Through = uint64(from), uint64(through)
		if through >= p.Customers.Len() { // there may be more meanwhile
			asked.Through = last
		}
		sum.left = p.room
		used, err := sum.all(src, &asked, p.state)
		if errors.Is(err, ErrRankingTooLarge) && width > rowsOfPage {
			width = max(width/4, rowsOfPage)
			continue
		}
		if err != nil {
			return err
		}
		p.weigh(used)
		if err = p.take(used); err != nil || asked.Through == last {
			return err
		}
		from = through + 1
		if p.room-sum.left < p.room/4 {
			width *= 2
		}
	}
	return ErrRankingTooLarge
}

// weigh looks for customers that may be the first among those of a part.
func (p *pricer) weigh(used map[uint32]cellRows) {
	features := slices.DeleteFunc(slices.Sorted(maps.Keys(used)), func(feature uint32) bool {
		return p.dearest[feature].IsZero()
	})
	groups := 0
	for _, of := range used { // any order: the most of all
		groups = max(groups, len(of))
	}
	var here []uint32 // those that customers of a group have used
	for group := range uint32(groups) {
		here = here[:0]
		for _, feature := range features {
			if used[feature].group(group) != nil {
				here = append(here, feature)
			}
		}
		if len(here) == 0 {
			continue // another part has them
		}
		for page := range uint32(pagesOfGroup) {
			var weights [rowsOfPage]decimal.Decimal
			for _, feature := range here {
				if cells := used[feature][group][page]; cells != nil {
					for i := range weights {
						weights[i] = sums.Of(weights[i], weight(cells[i].Units, p.dearest[feature]))
					}
				}
			}
			for i, w := range weights {
				if w.Sign() > 0 {
					p.kept.add(candidate{group*rowsOfGroup + page*rowsOfPage + uint32(i), w})
				}
			}
		}
	}
}

// take keeps what the likely customers have used, and of others nothing.
func (p *pricer) take(used map[uint32]cellRows) error {
	likely := make(map[uint32][]pricedUsage, p.kept.most)
	room := p.room / int(unsafe.Sizeof(rollup.Cell{}))
	for _, c := range p.kept.sorted() {
		likely[c.row] = p.used[c.row]
		room -= len(p.used[c.row])
	}
	p.used = likely
	for _, feature := range slices.Sorted(maps.Keys(used)) {
		for c := range used[feature].all() {
			row := uint32(c.Owner)
			if of, is := p.used[row]; is {
				p.used[row] = append(of, pricedUsage{feature: feature, used: *c})
				if room--; room < 0 {
					return ErrRankingTooLarge
				}
			}
		}
	}
	return nil
}

// addLater adds what one of them has used after the range.
func (p *pricer) addLater(c rollup.Cell) error {
	of := p.used[uint32(c.Owner)]
	i, found := slices.BinarySearchFunc(of, c.Item, func(u pricedUsage, feature uint32) int {
		return cmp.Compare(u.feature, feature)
	})
	if found {
		of[i].later.Add(c.Events, c.Units)
	}
	return nil
}

// least is the smallest price: that of what costs fees alone.
var least = decimal.FromBits(0, 1)

// weight is what units cost at a price, at least something, at most the largest number.
func weight(units, each decimal.Decimal) decimal.Decimal {
	if units.Sign() <= 0 {
		return decimal.Decimal{}
	}
	product, ok := bounded(units).Mul(each)
	if !ok {
		return decimal.Largest()
	}
	return decimal.Max(product, least)
}

// highest is the highest price of a unit of each feature in the plans that have subscribers.
func (p *pricer) highest() map[uint32]decimal.Decimal {
	prices := map[uint32]decimal.Decimal{}
	for _, v := range p.env.Catalog.Load().Versions {
		if v.Currency != p.currency || v.Subscribers.Load() == 0 {
			continue
		}
		for i := range v.Features {
			f := &v.Features[i]
			if !f.Priced {
				continue
			}
			highest := decimal.Max(least, f.Model.PricePerUnit)
			for _, t := range f.Model.Tiers {
				highest = decimal.Max(highest, t.PricePerUnit)
			}
			if size := f.Model.PackageSize; size.Sign() > 0 {
				if each, ok := f.Model.PricePerPackage.FloorDiv(size); ok {
					highest = decimal.Max(highest, each)
				}
			}
			prices[f.Feature] = decimal.Max(prices[f.Feature], highest)
		}
	}
	return prices
}

// price is what the customer of a row used, and what that adds to the bill.
func (p *pricer) price(row uint32) (u CustomerUsage) {
	lock := p.ReadLock(row)
	defer lock.RUnlock()
	customer := p.Customers.Read(row)
	u.Customer, u.Currency, u.HasPrice = string(p.ExternalID(customer)), p.currency, true
	c := p.env.Catalog.Load()
	var all rollup.Cell
	for i := range p.used[row] {
		of := &p.used[row][i]
		feature, used := of.feature, &of.used
		if all.Add(used.Events, used.Units); feature == 0 {
			continue
		}
		var d Decision
		d.CustomerRow, d.FeatureNumber, d.EnvironmentTime = row, feature, p.now
		place, stale := p.decide(c, customer, &d, p.now)
		var now decimal.Decimal
		if stale {
			place, now = p.foresee(customer, &d, p.now)
		} else if place.Found() {
			now = p.Counters.Reading(place.Counter, place.Feature)
		}
		if !place.Found() || !place.Feature.Priced || string(place.Feature.Currency[:]) != p.currency {
			continue
		}
		through := sums.Remaining(now, bounded(of.later.Units))
		before := sums.Remaining(through, bounded(used.Units))
		through, fits := before.Add(bounded(used.Units))
		cost, err := price.Cost(&place.Feature.Model, before, through)
		if fits && err == nil {
			u.Price = sums.Of(u.Price, cost)
		}
	}
	u.Events, u.Units = all.Events, bounded(all.Units)
	return u
}

// CustomerDenials counts the checks that were denied to a customer for a reason.
//
//schema:answer admin CustomerDenials
type CustomerDenials struct {
	Customer string `json:"customerReferenceId" rule:"min=1,max=128"`
	Reason   string `json:"reason"`
	Checks   int64  `json:"checks"`
}

// DenialQuery asks which customers were denied checks most.
type DenialQuery struct {
	UsageQuery
	// Reason, if it is not 0, is the only one that counts.
	Reason Reason
	Max    int
}

// DeniedByCustomer ranks the customers of an environment, and the reasons, by checks that were
// denied in a widened query's range, as far as the journal keeps them. It returns so many at most,
// and how many others there are.
func (m *journalReader) DeniedByCustomer(
	src rollup.Source, q *DenialQuery,
) (list []CustomerDenials, others int, err error) {
	s := m.state.Load()
	sum := summing{env: q.Env, as: func(reason uint32) uint32 { return reason }, left: math.MaxInt}
	sums, err := sum.all(src, &rollup.Query{
		Part: journal.PartAudit, Item: uint32(q.Reason), HasItem: q.Reason != 0,
		From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
		Owner: 1, Through: rollup.Environment(0) - 1,
	}, s)
	if err != nil {
		return nil, 0, err
	}
	ranked, others := rank(q.Max, sums, func(a, b *rollup.Cell) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), a.Compare(b.Key))
	})
	list = []CustomerDenials{}
	for _, c := range ranked {
		list = append(list, CustomerDenials{
			Customer: string(s.ExternalID(s.Customers.Read(uint32(c.Owner)))),
			Reason:   Reason(c.Item).String(), Checks: c.Events,
		})
	}
	return list, others, nil
}

// cellRows has a cell for each row of a table, in pages that are made when one is needed, and these
// in groups: a map of a million customers takes ten times as long. Pages are short, for an
// environment's customers may lie far apart.
type cellRows []*cellGroup

type cellGroup [pagesOfGroup]*[rowsOfPage]rollup.Cell

const (
	rowsOfPage   = 16
	pagesOfGroup = 256
	rowsOfGroup  = rowsOfPage * pagesOfGroup
)

// group is a group of rows; nil where none of them has a cell.
func (r cellRows) group(n uint32) *cellGroup {
	if int(n) < len(r) {
		return r[n]
	}
	return nil
}

// at is the cell of a row, and how many bytes were made for it.
func (r *cellRows) at(row uint32) (c *rollup.Cell, bytes int) {
	for int(row/rowsOfGroup) >= len(*r) {
		*r = append(*r, nil)
		bytes += int(unsafe.Sizeof((*r)[0]))
	}
	group := &(*r)[row/rowsOfGroup]
	if *group == nil {
		*group = new(cellGroup)
		bytes += int(unsafe.Sizeof(**group))
	}
	page := &(*group)[row%rowsOfGroup/rowsOfPage]
	if *page == nil {
		*page = new([rowsOfPage]rollup.Cell)
		bytes += int(unsafe.Sizeof(**page))
	}
	return &(*page)[row%rowsOfPage], bytes
}

// all are the cells that are not empty.
func (r cellRows) all() iter.Seq[*rollup.Cell] {
	return func(yield func(*rollup.Cell) bool) {
		for _, group := range r {
			if group == nil {
				continue
			}
			for _, page := range group {
				if page == nil {
					continue
				}
				for i := range page {
					if c := &page[i]; !c.Empty() && !yield(c) {
						return
					}
				}
			}
		}
	}
}

// summing adds up cells of an environment's customers by what an item counts as, in so many bytes.
type summing struct {
	customers *book.Customers
	env       uint32
	as        func(item uint32) uint32
	left      int
	sums      map[uint32]cellRows
	last      struct { // most cells follow one of the same customer and item
		owner uint64
		item  uint32
		cell  *rollup.Cell // nil: of another environment
	}
}

// all adds up what a query of all owners finds. The error may be ErrRankingTooLarge.
func (s *summing) all(
	src rollup.Source, q *rollup.Query, of *state,
) (map[uint32]cellRows, error) {
	s.customers, s.sums = &of.Customers, map[uint32]cellRows{}
	s.last.owner, s.last.item, s.last.cell = 0, 0, nil
	if err := src.Sum(*q, s.add); err != nil {
		return nil, fmt.Errorf("billing: add up the journal: %w", err)
	}
	return s.sums, nil
}

func (s *summing) add(c rollup.Cell) error {
	if c.Owner != s.last.owner || c.Item != s.last.item {
		s.last.owner, s.last.item, s.last.cell = c.Owner, c.Item, nil
		row := uint32(c.Owner)
		if row <= s.customers.Len() && s.customers.Read(row).Env == s.env {
			item := s.as(c.Item)
			of := s.sums[item]
			cell, bytes := of.at(row)
			if bytes > 0 {
				s.sums[item] = of
			}
			if s.left -= bytes; s.left < 0 {
				return ErrRankingTooLarge
			}
			cell.Key = rollup.Key{Owner: c.Owner, Item: item}
			s.last.cell = cell
		}
	}
	if s.last.cell != nil {
		s.last.cell.Add(c.Events, c.Units)
	}
	return nil
}

// rank returns the first cells in an order, so many at most, and how many others there are that are
// not empty.
func rank(
	maximum int, sums map[uint32]cellRows, order func(a, b *rollup.Cell) int,
) (first []*rollup.Cell, others int) {
	kept := foremost[*rollup.Cell]{most: maximum, order: order}
	for _, item := range slices.Sorted(maps.Keys(sums)) {
		for c := range sums[item].all() {
			kept.add(c)
		}
	}
	first = kept.sorted()
	return first, kept.added - len(first)
}

// foremost keeps the first of many in an order, so many at most.
type foremost[T any] struct {
	most  int
	order func(a, b T) int
	added int
	// list has the first in front, in order, once it was full, and then those that came before the
	// last of them.
	list []T
	full bool
}

func (f *foremost[T]) add(v T) {
	f.added++
	if f.full && f.order(f.list[f.most-1], v) <= 0 {
		return
	}
	if f.list = append(f.list, v); len(f.list) == 2*f.most {
		slices.SortFunc(f.list, f.order)
		f.list, f.full = f.list[:f.most], true
	}
}

// sorted returns the first ones.
func (f *foremost[T]) sorted() []T {
	slices.SortFunc(f.list, f.order)
	return f.list[:min(f.most, len(f.list))]
}
