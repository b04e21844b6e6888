//go:build planted_topup

package credits

// A planted bug that the torture must find: every second payment grants twice.
func grantsAgain(t *Burner, g *Grant, note string) {
	if u := t.S.topUps.rules.Read(t.S.topUps.of(g.Pool)); u.Count%2 == 0 {
		again := *g
		again.ID = TopUpID(t.S.Pools.Read(g.Pool).ID, u.Count|1<<31)
		t.Grant(&again, note)
	}
}
