package torture

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
)

// What the torture would have to find of top-ups is found, and what is right is not called wrong.
func TestTopUpsAreToldRightFromWrong(t *testing.T) {
	r := unbegun(t)
	answers := new(atomic.Bool)
	answers.Store(true)
	b := &buyer{report: r.report, till: newTill(answers, r.violate, 1)}
	one, two := &boughtPool{id: [16]byte{1}}, &boughtPool{id: [16]byte{2}}
	b.till.pools = []*boughtPool{one, two}
	charge := func(p *boughtPool, n uint32) (id string) {
		key := "topup_" + string(server.AppendUUID(nil, billing.TopUpID(p.id, n)))
		request := httptest.NewRequest(http.MethodPost, "/v1/payment_intents", strings.NewReader(
			url.Values{topUpTag: {key}}.Encode()))
		request.Header.Set("Idempotency-Key", key)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer := httptest.NewRecorder()
		b.till.ServeHTTP(answer, request)
		var made intent
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &made))
		return made.ID
	}
	violations := func(n int) {
		t.Helper()
		require.Len(t, r.violations, n)
		r.violations = nil
	}
	first := charge(one, 1)
	require.Equal(t, first, charge(one, 1), "a key charges once")
	charge(two, 1)
	charge(one, 2)
	violations(0)
	charge(one, 4) // the third is still on its way, or was never charged
	violations(1)
	charge(two, 1)
	violations(0)

	v := api.TopUp{SpentThisMonth: json.Number(strconv.Itoa(boughtCap))}
	b.compare(one, &v, 2*boughtCredits, 2, true)
	b.compare(one, &v, boughtCredits, 2, false) // one is on its way
	violations(0)
	b.compare(one, &v, boughtCredits, 2, true) // and never came
	violations(1)
	b.compare(one, &v, 3*boughtCredits, 2, false) // one came twice
	violations(1)
	v.SpentThisMonth = json.Number(strconv.Itoa(boughtCap + boughtPrice))
	b.compare(one, &v, 0, 0, true)
	violations(1)
}

// A threshold of a budget is told once in a window.
func TestAThresholdThatIsToldTwiceIsFound(t *testing.T) {
	b := &inbox{bodies: map[string]string{}, of: map[subject]string{}, met: map[string]bool{"c": true}}
	told := func(id, kind, percent, window string) error {
		_, err := b.take(id, []byte(`{"type":"`+kind+`","data":{"customerReferenceId":"c","budget":"b",`+
			`"featureKey":"seats","percent":`+percent+`,"windowStart":"`+window+`"}}`))
		return err
	}
	require.NoError(t, told("1", budgetThreshold, "50", "May"))
	require.NoError(t, told("1", budgetThreshold, "50", "May"), "the same message again")
	require.NoError(t, told("2", budgetThreshold, "90", "May"))
	require.NoError(t, told("3", budgetThreshold, "50", "June"))
	require.Error(t, told("4", budgetThreshold, "50", "May"))
	require.NoError(t, told("5", thresholdReached, "50", ""))
	require.NoError(t, told("6", thresholdReached, "50", ""), "usage was taken back, and came again")
	require.True(t, b.has(thresholdReached, "c seats 50"))
}
