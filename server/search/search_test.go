package search_test

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/engine/billing"
	"tollgate/server/search"
)

// place is a cluster with two environments of one account, and a searcher of it.
type place struct {
	*servertest.Cluster
	t    testing.TB
	env  uint32
	ids  uint64
	find *search.Searcher
}

func start(t testing.TB, maxRows int) *place {
	p := &place{Cluster: servertest.New(), t: t}
	p.Do(t, billing.KindCreateAccount, &billing.CreateAccount{ID: [16]byte{1}, Name: "demo"})
	p.env, _ = p.Machine.Environment("demo", billing.EnvironmentSandbox)
	p.find = search.New(search.Config{Machine: p.Machine, Events: p, Keys: p, MaxRows: maxRows})
	return p
}

func (p *place) add(env uint32, id, first, last, email string) {
	p.ids++
	p.Do(p.t, billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: env, ID: [16]byte{1, byte(p.ids), byte(p.ids >> 8), byte(p.ids >> 16)}, ExternalID: id,
		FirstName: first, LastName: last, Email: email,
	})
}

func (p *place) ask(env uint32, text string) search.Found {
	return p.find.Find(&search.Query{
		Env: env, Text: text, Limit: 100, Keys: true, Hints: true,
		Patience: 10 * time.Second,
	})
}

// named are the records that a text finds, as kind:id.
func (p *place) named(text string) (list []string) {
	found := p.ask(p.env, text)
	require.True(p.t, found.Complete)
	for _, r := range found.Results {
		list = append(list, r.Kind+":"+r.ID)
	}
	return list
}

func TestSearch(t *testing.T) {
	p := start(t, 0)
	p.add(p.env, "globex", "Hank", "Scorpio", "hank@globex.example")
	p.add(p.env, "12", "Émile", "Zola", "zola@books.example")
	p.add(p.env, "a%b", "Ada", "Lovelace", "ada@acme.example")
	p.add(p.env+1, "globex-live", "Hank", "Other", "hank@other.example")
	p.Do(t, billing.KindCreateKey, &billing.CreateKey{
		Env: p.env, ID: [16]byte{9}, Hash: [32]byte{9}, Scope: billing.ScopeRead, Label: "Reports",
		Hint: "sk_test_abc",
	})
	for text, want := range map[string][]string{
		"globex": {"customer:globex"}, "GLOB": {"customer:globex"}, "hank s": {"customer:globex"},
		"scor": {"customer:globex"}, "hank@": {"customer:globex"}, "éMI": {"customer:12"},
		"12": {"customer:12"}, "lobex": nil, "%": nil, "_": nil, "a%": {"customer:a%b"}, "*": nil,
		"globex-live": nil, "other": nil, "rep": {"key:09000000-0000-0000-0000-000000000000"},
		"sk_test_a": {"key:09000000-0000-0000-0000-000000000000"}, " ": nil, "\x00": nil, "\xff": nil,
		strings.Repeat("a", 10_000): nil, "01010000-0000-0000-0000-000000000000": {"customer:globex"},
	} {
		require.Equal(t, want, p.named(text), "%.40q", text)
	}
}

// TestEveryKind finds an invoice and its subscription, and an event.
func TestEveryKind(t *testing.T) {
	p := start(t, 0)
	for _, env := range []uint32{p.env, p.env + 1} {
		p.Do(t, billing.KindApplyCatalog, enginetest.ApplyCatalog(env, enginetest.TokenPlan()))
	}
	for i := range 200 { // invoices of two environments take turns
		env, id := p.env+uint32(i%2), "c"+strconv.Itoa(i)
		p.add(env, id, "A", "B", "a@b.example")
		p.Do(t, billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: env, ID: [16]byte{2, byte(i)}, InvoiceID: [16]byte{3, byte(i)},
			Plan: enginetest.TokenPlan().Plans[0].Key, Customer: id,
		})
	}
	for number := range uint64(101) {
		found := p.ask(p.env, "Invoice "+strconv.FormatUint(number, 10))
		require.True(t, found.Complete)
		if number == 0 {
			require.Empty(t, found.Results)
			continue
		}
		require.Len(t, found.Results, 1, number)
		require.Equal(t, "c"+strconv.Itoa(int(number-1)*2), found.Results[0].Customer)
		require.Equal(t, "Invoice "+strconv.FormatUint(number, 10), found.Results[0].Title)
	}
	require.Empty(t, p.named("101"))
	require.Equal(t, []string{"subscription:02000000-0000-0000-0000-000000000000"},
		p.named("02000000-0000-0000-0000-000000000000"))
	require.Empty(t, p.named("02010000-0000-0000-0000-000000000000"), "of the other environment")
}

// TestIndexAgreesWithReading draws customers and changes, and compares what the index finds with
// what reading everybody finds.
func TestIndexAgreesWithReading(t *testing.T) {
	p := start(t, 0)
	draw := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, 1+draw.IntN(3))
		for i := range b {
			b[i] = "abAB"[draw.IntN(4)]
		}
		return string(b)
	}
	type customer struct{ id, first, last, email string }
	var all []customer
	for step := range 6000 {
		switch {
		case step%3 == 2 && len(all) > 0:
			c := &all[draw.IntN(len(all))]
			c.first, c.email = word(), word()+"@x.example"
			p.Do(t, billing.KindUpdateCustomer, &billing.UpdateCustomer{
				Env: p.env, ExternalID: c.id, Set: billing.CustomerFirstName | billing.CustomerEmail,
				FirstName: c.first, Email: c.email,
			})
		default:
			c := customer{word() + strconv.Itoa(step), word(), word(), word() + "@y.example"}
			all = append(all, c)
			p.add(p.env, c.id, c.first, c.last, c.email)
		}
		if step%97 != 0 {
			continue
		}
		text := strings.ToLower(word() + word() + word())
		want := map[string]bool{}
		for _, c := range all {
			for _, of := range []string{c.id, c.first + " " + c.last, c.last, c.email} {
				if strings.HasPrefix(strings.ToLower(of), text) {
					want[c.id] = true
				}
			}
		}
		found := p.ask(p.env, text)
		require.True(t, found.Complete)
		require.Len(t, found.Results, min(100, len(want)), "step %d, %q", step, text)
		for _, r := range found.Results {
			require.True(t, want[r.ID], "step %d, %q finds %q", step, text, r.ID)
		}
	}
}

// TestAnIndexIsBounded: customers beyond the bound are not found by the beginnings of their texts,
// which the answer says; an environment that is searched takes the room of another.
func TestAnIndexIsBounded(t *testing.T) {
	p := start(t, 2500)
	for i := range 4000 {
		p.add(p.env+uint32(i/2000), "c"+strconv.Itoa(i), "A", "B", "a@b.example")
	}
	for range 3 {
		require.True(t, p.ask(p.env, "c1999").Complete)
		found := p.ask(p.env+1, "c399")
		require.True(t, found.Complete)
		require.Len(t, found.Results, 10)
	}
	for i := range 4000 {
		p.add(p.env, "d"+strconv.Itoa(i), "A", "B", "a@b.example")
	}
	require.False(t, p.ask(p.env, "d").Complete)
	require.Equal(t, "d3999", p.ask(p.env, "d3999").Results[0].ID, "a whole id is found all the same")
	impatient := p.find.Find(&search.Query{Env: p.env + 1, Text: "c", Limit: 1})
	require.False(t, impatient.Complete)
}

// TestARestoredStateIsIndexedAnew, although the rows are as many.
func TestARestoredStateIsIndexedAnew(t *testing.T) {
	p, other := start(t, 0), start(t, 0)
	for i := range 3000 {
		p.add(p.env, "old"+strconv.Itoa(i), "A", "B", "a@b.example")
		other.add(other.env, "new"+strconv.Itoa(i), "A", "B", "a@b.example")
	}
	require.NotEmpty(t, p.named("old"))
	snapshot, err := other.Machine.Snapshot()
	require.NoError(t, err)
	defer snapshot.Release()
	var saved bytes.Buffer
	_, err = snapshot.WriteTo(&saved)
	require.NoError(t, err)
	require.NoError(t, p.Machine.Restore(&saved))
	require.Empty(t, p.named("old"))
	require.Len(t, p.named("new"), 100)
}

// BenchmarkFind searches among 200,000 customers, with and without an index.
func BenchmarkFind(b *testing.B) {
	p := start(b, 0)
	for i := range 200_000 {
		p.add(p.env, "customer-"+strconv.Itoa(i*7919%1_000_000), "Ada", "Lovelace"+strconv.Itoa(i%977),
			"ada"+strconv.Itoa(i)+"@acme.example")
	}
	b.Run("First", func(b *testing.B) {
		for b.Loop() {
			p.find = search.New(search.Config{Machine: p.Machine})
			require.True(b, p.ask(p.env, "customer-77").Complete)
		}
	})
	for name, text := range map[string]string{
		"Id": "customer-77", "Name": "ada lovelace97", "Mail": "ada1234", "Nothing": "%",
		"Long": strings.Repeat("a", 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			p.ask(p.env, text)
			for b.Loop() {
				p.ask(p.env, text)
			}
		})
	}
}
